"""`germane --version --verbose`: what a bug report needs to know of an installation. No secret is in it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from germane.errors import GermaneError
from germane.evaluation.choice import ledger_address
from germane.evaluation.options import read_config
from germane.judges.client.providers import PROVIDERS
from germane.ledger.store import FORMAT
from germane.tables.folder import OLDEST, SCHEMA_VERSION
from germane.version import __version__

_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*extra == [\"']([\w-]+)[\"'])?")
_ADDRESS = re.compile(r"(\w+://)\S+")
"""An address may hold a password or a key: its scheme alone is shown."""
_PLAIN = ("GERMANE_JUDGE", "NO_COLOR", "CI")


def details() -> str:
    """The versions, formats and settings that this installation works with, a line each."""
    keys = {provider.key for provider in PROVIDERS.values() if os.environ.get(provider.key)}
    rows = [
        ("germane", f"{__version__}, in {Path(__file__).parents[1]}"),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("system", platform.platform()),
        *_packages(),
        (
            "formats",
            f"report {SCHEMA_VERSION} (reads {OLDEST} to {SCHEMA_VERSION}), ledger {FORMAT}, --json 1",
        ),
        ("settings", _readable(_settings)),
        ("ledger", _readable(_ledger)),
        *((name, _ADDRESS.sub(r"\1...", os.environ[name])) for name in _PLAIN if os.environ.get(name)),
        ("keys", ", ".join(sorted(keys)) or "none set"),  # their names, never a value
    ]
    return "\n".join(f"{name:14} {value}" for name, value in rows)


def _packages() -> Iterator[tuple[str, str]]:
    """The installed versions of the packages that are always needed, and of those of each extra."""
    needed = dict[str, list[str]]()
    for line in requires("germane") or ():
        if (match := _REQUIREMENT.match(line)) and match[2] != "all":
            needed.setdefault(match[2] or "", []).append(match[1])
    yield "packages", ", ".join(map(_installed, needed.pop("", [])))
    for extra, names in sorted(needed.items()):
        yield f"[{extra}]", ", ".join(map(_installed, names))


def _installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} is not installed"


def _settings() -> str:
    config = read_config()
    names = ", ".join(sorted(config.values))
    return f"{config.folder}: {names or 'none'}" if config.folder else "no germane.toml, no [tool.germane]"


def _ledger() -> str:
    """The ledger that is used here, by GERMANE_LEDGER, the config, or the nearest project file."""
    address = ledger_address()
    if "://" in address:
        return _ADDRESS.sub(r"\1...", address)
    path = Path(address)
    return f"{path} ({f'{path.stat().st_size:,} bytes' if path.is_file() else 'not there yet'})"


def _readable(read: Callable[[], str]) -> str:
    """The text that `read` returns, or why it cannot be read."""
    try:
        return read()
    except GermaneError as error:
        return f"cannot be read: {error}"
