"""A PostgreSQL server of the test's own: made by initdb in a folder of its own, on a free port, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

PASSWORD = "not:so/secret"  # of a server that lives for a second


def programs() -> Path | None:
    """Where PostgreSQL's own programs are, which Debian keeps off the PATH; None where it is not installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parent.parent.name)
    )
    here = shutil.which("initdb")
    return found[-1].parent if found else Path(here).resolve().parent if here else None


class PostgresServer:
    """Starts in `with`; `url` names its database, its user and its password. Only with `fsync` does it wait for the disk."""

    def __init__(self, *, fsync: bool = False) -> None:
        self._bin, self._fsync = programs(), fsync
        self._folder = Path(tempfile.mkdtemp(prefix="germane-pg-"))
        self._user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"postgresql://judge:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    @property
    def place(self) -> str:
        return f"postgresql://judge@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *words: str) -> None:
        assert self._bin is not None
        done = subprocess.run(
            [self._bin / program, *words],
            user=self._user,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode()

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "fsync": "on" if self._fsync else "off", "max_connections": 60,
                    "unix_socket_directories": ""}  # fmt: skip
        given = " ".join(f"-c {name}={value!r}" for name, value in settings.items())
        # -W: `with` its log in a file, it does not hold this process's output open
        self._run("pg_ctl", "-D", "data", "-l", "log", "-o", given, "-w", "-t", "50", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")

    def restart(self, away: float = 0.3) -> None:
        """It is gone, as if it had crashed, and comes back."""
        self.stop()
        time.sleep(away)
        self.start()

    def empty(self) -> None:
        """As it was at first."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("DROP TABLE IF EXISTS judgements, asked, batches")

    def __enter__(self) -> Self:
        word = self._folder / "password"
        word.write_text(PASSWORD)
        if self._user is not None:
            for path in (self._folder, word):
                os.chown(path, pwd.getpwnam(self._user).pw_uid, -1)
        self._run(
            "initdb", "-D", "data", "-U", "judge", "-A", "scram-sha-256", "--pwfile", "password", "--no-sync"
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
