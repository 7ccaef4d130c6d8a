"""The ledger: answers that were paid for, kept in SQLite, shared by evaluations and processes.

An answer is stored under its key (see `questions.key_of`) when it arrives. Errors are not stored: they are asked again.
The first committed answer to a key wins.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from germane.addons import absent, find
from germane.encoding import decode, encode
from germane.errors import InputError, LedgerError
from germane.ledger import files_of, secret_of
from germane.types import FrozenDict, Judgement, Usage, freeze

__all__ = [
    "COLUMNS",
    "DECLARED",
    "FORMAT",
    "INDEXES",
    "SELECT",
    "Ledger",
    "LedgerTable",
    "Row",
    "SQLiteLedger",
    "check_format",
    "from_row",
    "is_there",
    "password_apart",
    "without_password",
]

FORMAT = 4
"""The file's `user_version`. Formats 1 to 3 had other keys, and no items: their answers cannot be looked up any more."""

COLUMNS = ("key", "item", "kind", "judge", "prompt", "parent", "answer", "provenance", "request", "requests",
           "input_tokens", "output_tokens", "cost_usd", "ms", "at")  # fmt: skip
DECLARED = dict.fromkeys(COLUMNS, "TEXT NOT NULL") | {
    "key": "TEXT PRIMARY KEY",
    **dict.fromkeys(("parent", "request", "at"), "TEXT"),
    **dict.fromkeys(("requests", "input_tokens", "output_tokens"), "INTEGER NOT NULL"),
    **dict.fromkeys(("cost_usd", "ms"), "REAL"),
}
"""The SQL type and constraint of each column."""
INDEXES = (
    "CREATE INDEX judgements_item ON judgements (item)",
    "CREATE INDEX judgements_parent ON judgements (parent) WHERE parent IS NOT NULL",
)

SELECT = f"SELECT {', '.join(COLUMNS)} FROM judgements"  # noqa: S608 - constants
INSERT = f"INSERT OR IGNORE INTO judgements VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - constants
_SYNC_SECONDS = 1.0
"""Seconds after which a written answer has reached the disk: what a power cut may cost. A killed process loses nothing."""

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
"""One slash, as a path leaves one of two; a Windows drive is a single letter."""
_CONNECTION = re.compile(
    r"\s*(?:(?:host|hostaddr|port|dbname|user|service|sslmode)\s*=|postgres(?:ql)?:)|(?s:.*)\bpassword\s*="
)
"""The forms that libpq takes besides a URL, and a URL without its slashes: not a file, and it may hold a password."""

_PASSWORD = re.compile("pass|secret|token", re.IGNORECASE)
"""The words in the name of a parameter of a URL that holds a password."""
_SHOWN_OPTIONS = re.compile(r"(?:\s*-c\s*search_path=[\w,$]+)*\s*", re.IGNORECASE)
"""The `options` of a URL that name where the table stands; others may hold anything."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

Row = Sequence[Any]


_names = attrgetter(*COLUMNS[: COLUMNS.index("answer")])


_LARGEST = 1 << 53
"""More than any count, price or time that a row has."""


def to_row(judgement: Judgement) -> Row:
    """A judgement as the values of COLUMNS. ValueError or TypeError where its answer cannot be written as JSON."""
    answer, provenance = encode(judgement.answer).decode(), encode(judgement.provenance).decode()
    used = judgement.usage
    counts = (used.requests, used.input_tokens, used.output_tokens, used.cost_usd)
    return *_names(judgement), answer, provenance, judgement.request, *counts, judgement.ms, judgement.at


def from_row(row: Row) -> Judgement:
    """The judgement in the values of COLUMNS; ValueError where its JSON is none."""
    key, item, kind, judge, prompt, parent, answer, provenance, request, requests, sent, got, cost, ms, at = (
        row
    )
    texts = (key, item, kind, judge, prompt, answer, provenance)
    others = (text for text in (parent, request, at) if text is not None)
    amounts = (amount for amount in (requests, sent, got, cost, ms) if amount is not None)
    if not (
        all(isinstance(text, str) for text in (*texts, *others))
        and all(isinstance(amount, int | float) and 0 <= amount < _LARGEST for amount in amounts)
    ):
        raise ValueError("a row holds a value of another type")
    return Judgement(
        key=key,
        item=item,
        kind=kind,
        judge=judge,
        prompt=prompt,
        answer=decode(answer),
        parent=parent,
        request=request,
        usage=Usage(requests=requests, input_tokens=sent, output_tokens=got, cost_usd=cost),
        ms=ms,
        at=at,
        provenance=_provenance(provenance),
    )


@lru_cache(maxsize=1024)
def _provenance(text: str) -> FrozenDict:
    """Most answers of a run came about alike."""
    if not isinstance(value := decode(text), dict):
        raise ValueError("the provenance of a row is not an object")  # noqa: TRY004 - as where its JSON is none
    return FrozenDict(freeze(value))


class Ledger(Protocol):
    """A durable store of judgements, which several threads may use. Whatever goes wrong is a LedgerError."""

    @property
    def place(self) -> str:
        """The absolute path or URL that opens it again and that reports name. It holds no password."""

    def ready(self) -> None:
        """Write something small. LedgerError where answers cannot be stored just now."""

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements stored under these keys."""

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """The judgements whose parent is one of these keys."""

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store them, all or none; what then stands under each key, since an earlier answer wins.

        `replacing` are stored judgements whose answers cannot be used: they are deleted first, unless another answer
        stands under their key by now.
        """

    def close(self) -> None:
        """Release the store's files or connections; it is not used afterwards."""


class LedgerTable(Ledger):
    """A ledger whose rows stand in a table of a database, which may be chosen, counted and deleted.

    SQL is written so that SQLite and PostgreSQL read it alike, and values stand in it as `?`.
    """

    chunk: ClassVar[int]
    """Keys that are looked up together."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of the table and what belongs to it."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """The rows of a query, each through `read`, as they are needed. LedgerError where one cannot be read."""

    @abstractmethod
    def make(self, statements: Sequence[str]) -> None:
        """Make tables that may be there; of several processes one after the other."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number of rows that a statement has changed."""

    @abstractmethod
    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        """The judgements with one of these values."""

    @abstractmethod
    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        """Delete the `useless` (key, answer), then insert rows under new keys, all or nothing; these keys."""

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements stored under these keys."""
        keys = sorted(keys)
        chunks = (keys[start : start + self.chunk] for start in range(0, len(keys), self.chunk))
        return {judgement.key: judgement for some in chunks for judgement in self._look_up("key", some)}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """The judgements whose parent is one of these few keys, in the order of their own keys."""
        return sorted(self._look_up("parent", keys), key=attrgetter("key"))

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store them in one transaction; what then stands under each key: an earlier answer wins."""
        stored = {judgement.key: judgement for judgement in reversed(judgements)}
        useless = [(judgement.key, encode(judgement.answer).decode()) for judgement in replacing]
        added = self._insert([to_row(stored[key]) for key in sorted(stored)], useless)
        earlier = [key for key in stored if key not in added]
        return stored | self.find(earlier) if earlier else stored

    def __len__(self) -> int:
        return next((int(row[0]) for row in self.rows("SELECT count(*) FROM judgements")), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SQLiteLedger(LedgerTable):
    """A ledger in one SQLite file, with a write-ahead log.

    A row is committed when it arrives, without waiting for the disk: it survives the death of the process, and within
    a second also that of the machine. With `read_only`, nothing is changed or made.

    Raises InputError where no ledger can be kept at such a place, LedgerError where the file is not a ledger, is of another
    version, is damaged, or cannot be used.
    """

    chunk = 500

    def __init__(self, where: str | Path, *, read_only: bool = False) -> None:
        self.path = file_of(where)
        self._writing, self._reading, self._syncing = threading.RLock(), threading.RLock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._fault: LedgerError | None = None
        with self._explained():
            self.db = self._open(read_only=read_only)
            self._reader = self.db if read_only else connect(self.path)
            self._reader.execute("PRAGMA query_only=ON")

    def _open(self, *, read_only: bool) -> sqlite3.Connection:
        return open_for_reading(self.path) if read_only else open_for_writing(self.path)

    @property
    def place(self) -> str:
        """The absolute path of the file."""
        return str(self.path.absolute())

    @property
    def size(self) -> int:
        """Bytes of the file and its log."""
        return sum(path.stat().st_size for path in files_of(self.path)[:2] if path.exists())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Faults of the file inside become LedgerErrors that say what to do."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise explain(error, self.path) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection that writes, within one transaction: all of it or nothing."""
        with self._writing, self._explained():
            if (fault := self._fault) is not None:
                self._fault = None
                raise fault
            with transaction(self.db):
                yield self.db
            if self._timer is None:
                self._timer = threading.Timer(_SYNC_SECONDS, self._sync)
                self._timer.daemon = True
                self._timer.start()

    def _sync(self) -> None:
        """Bring what is in the log to the disk and into the file, on a connection of its own: nobody waits for it."""
        with self._syncing:
            self._timer = None
            try:
                with closing(connect(self.path)) as db:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error as error:  # told to the next who writes
                self._fault = explain(error, self.path)

    def ready(self) -> None:
        """Write one page: the number of the format, once more. LedgerError where that fails."""
        self.make([f"PRAGMA user_version={FORMAT}"])

    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """The rows of a query, on a connection that waits for nobody who writes."""
        with self._reading, self._explained():
            yield from map(read, self._reader.execute(sql, values))

    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        marks = ",".join("?" * len(values))
        return list(self.rows(f"{SELECT} WHERE {column} IN ({marks})", values, from_row))

    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        with self.writing() as db:
            db.executemany("DELETE FROM judgements WHERE key = ? AND answer = ?", useless)
            return {row[0] for row in rows if db.execute(INSERT, row).rowcount}

    def make(self, statements: Sequence[str]) -> None:
        """Execute these SQL statements in one transaction: all of them or none."""
        with self.writing() as db:
            for statement in statements:
                db.execute(statement)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number of rows that a statement has changed."""
        with self.writing() as db:
            return int(db.execute(sql, values).rowcount)

    def close(self) -> None:
        """Bring everything to the disk, and close the file."""
        if (timer := self._timer) is not None:
            timer.cancel()
            self._sync()
        with self._reading, self._writing, self._syncing:
            self._reader.close()
            self.db.close()


_CHECKED = 50_000_000
"""Bytes up to which a file's structure is checked whenever it is opened (0.15 s)."""

_HINTS = {
    sqlite3.SQLITE_FULL: "; free some space",
    sqlite3.SQLITE_IOERR: "; the disk may be full: free some space",
    sqlite3.SQLITE_BUSY: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_LOCKED: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_READONLY: "; it cannot be written: look at its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "; look at the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "; look at the permissions of the file and its folder",
}
_WAIT_SECONDS = 60
_CACHE_KIB = 16_000
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}
_DAMAGE_WITHOUT_CODE = ("Could not decode", "unsupported file format")


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """A connection in autocommit mode, for any thread, that waits up to a minute for another program's lock."""
    where = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(
        where, uri=True, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    db.execute(f"PRAGMA cache_size={-_CACHE_KIB}")
    return db


@contextmanager
def transaction(db: sqlite3.Connection, how: str = "IMMEDIATE") -> Iterator[None]:
    """All of what is done inside, or nothing; "DEFERRED" for one state of the file while it is only read."""
    db.execute(f"BEGIN {how}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled back already
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that makes the file (mode 0600), its folder and its table where there are none.

    Nothing is written to a file of another program or of another version. Raises LedgerError, OSError, sqlite3.Error.
    """
    _refuse_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)  # SQLite gives the log the same mode
    db = connect(path)
    try:
        with transaction(db, "DEFERRED"):
            new = _is_new(db, path)
        _refuse_damaged(db, path)
        _use_log(db)
        for pragma in ("synchronous=NORMAL", "wal_autocheckpoint=0"):
            db.execute(f"PRAGMA {pragma}").fetchone()
        if new:
            with transaction(db):
                if _is_new(db, path):  # another process may have been faster
                    create_table(db)
    except BaseException:
        db.close()
        raise
    return db


def create_table(db: sqlite3.Connection) -> None:
    """Make the table and its indexes in an empty database."""
    columns = ", ".join(f"{name} {declared}" for name, declared in DECLARED.items())
    for statement in (f"CREATE TABLE judgements ({columns})", *INDEXES):
        db.execute(statement)
    db.execute(f"PRAGMA user_version={FORMAT}")


def open_for_reading(path: Path, *, unchecked: bool = False) -> sqlite3.Connection:
    """A connection that changes nothing, also where nobody can write; `unchecked`, to a file that may be damaged.

    Raises LedgerError, OSError, sqlite3.Error.
    """
    _refuse_folder(path)
    if not path.exists():
        raise LedgerError(f"no ledger {path}; `germane run` makes one, or name another: --ledger FILE")
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    log = files_of(path)[1]
    if not writable and log.exists() and log.stat().st_size:
        raise LedgerError(
            f"{path} has answers in {log.name}, which SQLite cannot read where nobody can write; "
            "copy both to another folder"
        )
    db = connect(path, "rw" if writable else "ro&immutable=1")
    try:
        db.execute("PRAGMA query_only=ON")
        with transaction(db, "DEFERRED"):
            if _is_new(db, path):
                raise LedgerError(f"{path} is not a ledger: it is empty; name another file")  # noqa: TRY301
        if not unchecked:
            _refuse_damaged(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise LedgerError(f"{path} is a folder; name the ledger's file, such as {path / 'ledger.sqlite'}")


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """True if the database is empty. LedgerError where it is another program's, or of another version."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 3")]
    columns = tuple(name for _, name, *_ in db.execute("PRAGMA table_info(judgements)"))
    if not tables and not version:
        return True
    if not columns or not version:
        raise LedgerError(
            f"{path} is not a ledger: it holds {', '.join(tables) or 'no table'}; name another file"
        )
    check_format(str(path), version, "name another file, or move this one away")
    if columns != COLUMNS:
        raise LedgerError(f"{path} is not a ledger: its table has other columns; name another file")
    others = "(type IN ('view', 'trigger') OR (name = 'judgements' AND sql NOT LIKE 'CREATE TABLE %'))"
    for kind, name in db.execute(f"SELECT type, name FROM sqlite_master WHERE {others} LIMIT 1"):  # noqa: S608 - constants
        problem = f"{path} is not a ledger that germane made: it holds the {kind} {name[:60]!r}, which changes what is stored"
        raise LedgerError(f"{problem}; name another file")
    return False


def check_format(address: str, version: int, fix: str) -> None:
    """LedgerError where a ledger was written by a newer or an older germane."""
    if version == FORMAT:
        return
    written = f"(format {version}, this one writes {FORMAT})"
    if version > FORMAT:
        raise LedgerError(f"{address}: written by a newer germane {written}; update germane, or {fix}")
    raise LedgerError(
        f"{address}: written by an older germane {written}, whose answers cannot be looked up any more; {fix}; "
        "what was paid is kept in reports: germane ledger import REPORT/judgements.jsonl"
    )


def _use_log(db: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself where another process switches a new file."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def integrity(db: sqlite3.Connection, most: int = 1) -> list[str]:
    """The problems that SQLite's `integrity_check` finds, `most` at most; none where the file is sound."""
    results = (
        line for (text,) in db.execute(f"PRAGMA integrity_check({most})") for line in text.splitlines()
    )
    return [line for line in results if line != "ok" and not line.startswith("***")]


def _refuse_damaged(db: sqlite3.Connection, path: Path) -> None:
    """An answer behind a damaged page would seem not to be there, and be paid for again."""
    if path.stat().st_size <= _CHECKED and (problems := integrity(db)):
        raise LedgerError(f"the ledger {path} is damaged: {problems[0]}; {recovery(path)}")


def recovery(path: Path) -> str:
    """The command that saves what can still be read of a damaged file."""
    fresh = path.with_name(f"recovered-{path.name}")
    return (
        f"save what can be read: sqlite3 {path} .recover | sqlite3 {fresh}; then use --ledger {fresh} "
        "(Debian's sqlite3 cannot .recover: that of sqlite.org can)"
    )


def is_damage(error: Exception) -> bool:
    """True if the file itself is at fault: SQLite, or the reader of its JSON, cannot make sense of it."""
    if isinstance(error, sqlite3.Error):
        return _code(error) in _DAMAGE or str(error).startswith(_DAMAGE_WITHOUT_CODE)
    return isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)


def explain(error: Exception, path: Path) -> LedgerError:
    """A fault of the ledger's file as a LedgerError that says what to do."""
    if is_damage(error):
        other = " (if it never was a ledger: name another file)" if "not a database" in str(error) else ""
        return LedgerError(f"the ledger {path} is damaged: {error}{other}; {recovery(path)}")
    return LedgerError(f"the ledger {path} cannot be used: {error}{_HINTS.get(_code(error), '')}")


def _code(error: Exception) -> int:
    """SQLite's primary error code; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_database(where: str | Path) -> bool:
    """Return True if a place is the URL of a database, PostgreSQL or a store that an add-on brings, and not a file."""
    return store_of(where) is not None


def store_of(where: str | Path) -> str | None:
    """Return the function, `module:object`, that opens the ledger at a URL; None for a file."""
    match = _SCHEME.match(str(where))
    scheme = match[1].lower() if match else ""
    declared: str | None = find("stores", scheme) if scheme else None
    if declared is None and (owner := absent("stores", scheme)):
        problem = f"a ledger at {scheme}:// needs the add-on {owner}, which is not there"
        raise InputError(problem, fix="name a file: --ledger ledger.sqlite")
    return declared


def _database_url(where: str | Path) -> SplitResult:
    """The parts of a database's URL. InputError, which shows nothing of it, where these cannot be told apart."""
    text = re.sub(r"^(\w+):/(?!/)", r"\1://", str(where).strip())  # a path leaves one slash of two
    with suppress(ValueError):  # a bracket that is not closed, a port that is not a number
        parts = urlsplit(text)
        _ = parts.port if "," not in parts.netloc else None
        named = all("=" in piece for piece in parts.query.split("&") if piece)
        if named and parts.netloc.count("@") <= 1 and "@" not in parts.path + parts.fragment:
            return parts
    fix = "write postgresql://USER@HOST/DATABASE, and the password to PGPASSWORD"
    raise InputError("this is not a URL of a database", fix=fix)


def without_password(where: str | Path) -> str:
    """A place as it may be shown and stored: of a database's URL without the password."""
    if not is_database(where):
        return str(where)
    parts = _database_url(where)
    login, at, host = parts.netloc.rpartition("@")
    query = urlencode([pair for pair in parse_qsl(parts.query) if not _is_secret(*pair)])
    # not urlunsplit: it drops the slashes of a URL without a host, which means a socket here
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{host}{parts.path}" + f"?{query}" * bool(query)


def _is_secret(name: str, value: str) -> bool:
    return not _SHOWN_OPTIONS.fullmatch(value) if name == "options" else bool(_PASSWORD.search(name))


def password_apart(where: str) -> str:
    """A place without its password, which goes to PGPASSWORD: this process and those that it starts find it there."""
    if is_database(where):
        parts = _database_url(where)
        query = dict(parse_qsl(parts.query))
        if password := query.get("password") or unquote(parts.password or ""):
            os.environ["PGPASSWORD"] = password
        if _is_secret("options", options := query.get("options", "")):
            os.environ["PGOPTIONS"] = options
    return without_password(where)


def is_there(where: str | Path) -> bool:
    """True if there is a ledger at a place already, or a database that may have one. InputError where none can be."""
    return is_database(where) or file_of(where).exists()


def file_of(where: str | Path) -> Path:
    """The file of a ledger. InputError where the place is not a file's."""
    if match := _SCHEME.match(str(where)):
        raise InputError(
            f"a ledger cannot be kept at {match[1]}://...",  # no more: it may hold a password
            fix="write a file's path, such as .germane/ledger.sqlite, or postgresql://HOST/DATABASE",
        )
    if _CONNECTION.match(str(where)):
        fix = "write postgresql://USER@HOST:PORT/DATABASE, and the password to PGPASSWORD"
        raise InputError("a ledger in PostgreSQL is named by a URL, not by a connection string", fix=fix)
    return Path(where).expanduser()


def secret_beside(address: str) -> bytes | None:
    """The secret of the ledger at a place, in a file next to it that its owner alone can read; made where there is none.

    None where none can be kept, or no ledger is there. A file that others can read is replaced: somebody else may have put it there.
    """
    path = secret_of(Path(address))
    if not Path(address).is_file():
        return None
    try:
        if (result := _private_text(path)) is None:
            path.unlink(missing_ok=True)
            with tempfile.NamedTemporaryFile(prefix=".secret-", dir=path.parent) as made:  # mode 0600
                made.write(secrets.token_hex(32).encode())
                made.flush()
                with suppress(FileExistsError):  # another process was first
                    os.link(made.name, path)  # it is whole or not there
            result = _private_text(path)
    except OSError:
        return None
    return result


def _private_text(path: Path) -> bytes | None:
    """The content of the secret's file; None where there is none, or it could have been read or put there by others."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_LINK)) as file:
            result, status = file.read(64), os.fstat(file.fileno())
    except OSError:
        return None
    private = os.name != "posix" or (not status.st_mode & 0o077 and status.st_uid == os.geteuid())
    return result if private and len(result) == 64 else None


def address_from(folder: Path, where: str) -> str:
    """A place as a file in this folder names it: a path is relative to the folder."""
    return where if _SCHEME.match(where) else str(folder / file_of(where))


def find_ledger(start: Path) -> Path:
    """`.germane/ledger.sqlite` next to the nearest germane.toml or pyproject.toml, else in `start`."""
    for folder in (start, *start.parents):
        if (folder / "germane.toml").is_file() or (folder / "pyproject.toml").is_file():
            return folder / ".germane" / "ledger.sqlite"
    return start / ".germane" / "ledger.sqlite"
