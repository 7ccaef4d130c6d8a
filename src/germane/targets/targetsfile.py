"""Find and read the targets file, which lists the systems under test, and open its targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from germane.addons import all_of, find, load
from germane.errors import InputError, SourceLocation
from germane.evalfiles.model import read_model
from germane.samples.files import Warn, check_trusted, read_text
from germane.targets.cli import CliTarget
from germane.targets.fixed import MockTarget, RecordedTarget
from germane.targets.http import HttpTarget
from germane.targets.python import PythonTarget
from germane.targets.target import Target
from germane.yamltext import Node, parse_yaml, unset_variables, with_environment

PROVIDERS: Mapping[str, type[Target]] = {
    "mock": MockTarget,
    "cli": CliTarget,
    "http": HttpTarget,
    "python": PythonTarget,
    "recorded": RecordedTarget,
}
"""Maps the name of each provider in a targets file to its class of targets."""

NAMES = (".agentv/targets.yaml", "targets.yaml", ".agentv/targets.yml", "targets.yml")


def open_target(name: str, where: str | Path) -> Target:
    """Open the target called `name` in the targets file and return it, ready to answer queries.

    `where` is the targets file, or a folder; then the nearest targets file in or above the folder is used.
    `${{ NAME }}` in the target's entry is replaced by the environment variable. Raises InputError, with file,
    line and column, if the target cannot be opened.
    """
    entry, path, kind = check_asked(name, where)
    folder = path.resolve().parent
    target = read_model(kind, with_environment(entry), folder=folder)
    target.open(entry.location, folder)
    return target


def check_target(
    name: str, where: str | Path, *, warn: Warn | None = None, faults: list[InputError] | None = None
) -> list[str]:
    """Check the entry of a target in the targets file, without running the user's code.

    Return what could not be checked: environment variables that are not set, and code that would have to be
    imported. Raises InputError for the first error. If `faults` is given, the other errors in the entry's
    values are appended to it.
    """
    entry, path, kind = target_entry(name, where)
    before = len(faults or ())
    read_model(kind, entry, faults, folder=path.resolve().parent, warn=warn)
    unchecked = unset_variables(entry)
    if kind.imports:
        unchecked.append(f"the function of the target {name} (it would be imported)")
    if not unchecked and len(faults or ()) == before:
        open_target(name, where)
    return unchecked


def check_asked(name: str, where: str | Path) -> tuple[Node, Path, type[Target]]:
    """Return a target's entry, its file and its class. Raises InputError if it is live and not trusted."""
    entry, path, kind = target_entry(name, where)
    if kind.live:
        check_trusted(f"the target {name} would run a program or send a request", entry.location)
    return entry, path, kind


def target_entry(name: str, where: str | Path) -> tuple[Node, Path, type[Target]]:
    """Return a target's entry, its targets file and its class.

    `where` is the targets file, or a folder for `find_targets_file`. Raises InputError if the target or its
    provider is unknown.
    """
    path = find_targets_file(Path(where)) if Path(where).is_dir() else Path(where)
    root = parse_yaml(read_text(path), str(path))
    listed = (root.pairs or {}).get("targets")
    if listed is None or listed.items is None:
        fix = "write targets: [{name: ..., provider: ...}]"
        raise root.fault("the targets file has no list of targets", fix)
    names: dict[str, Node] = {}
    for item in listed.items:
        text = item.pairs["name"].text if item.pairs and "name" in item.pairs else None
        if not text:
            raise item.fault("this target has no name", "write name: my_rag")
        if text in names:
            fix = "give each target its own name"
            raise item.fault(f"target names must be unique; {text!r} occurs twice", fix)
        names[text] = item
    if name not in names:
        fix = f"name one of {', '.join(names)}"
        raise InputError(f"unknown target {name!r}", fix=fix, place=SourceLocation(str(path)))
    entry = names[name]
    kind = (entry.pairs or {}).get("provider")
    fix = f"write provider: {' or '.join([*PROVIDERS, *all_of('targets')])}"
    if kind is None:
        raise entry.fault(f"the target {name} has no provider", fix)
    provider = PROVIDERS.get(kind.text or "")
    if provider is None and kind.text and (declared := find("targets", kind.text)):
        provider = load(declared)
    if provider is None:
        raise kind.fault(f"the target {name} has the unknown provider {kind.text!r}", fix)
    return entry, path, provider


def find_targets_file(folder: Path) -> Path:
    """Return the nearest targets file in a folder or above it, up to the root of the repository.

    Raises InputError if there is no targets file.
    """
    start = folder.resolve()
    for path in (start, *start.parents):
        for name in NAMES:
            if (path / name).is_file():
                return path / name
        if (path / ".git").exists():
            break
    problem = f"there is no targets file (targets.yaml) in {start} or above, up to {path}"
    raise InputError(problem, fix="write targets.yaml in that folder, or give --targets FILE")
