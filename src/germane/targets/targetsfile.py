"""The targets file: where it is found, what it may say, and the environment variables in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from germane.errors import InputError, Place
from germane.samples.notices import Warn, nearest
from germane.samples.section import Section
from germane.samples.source import read_text
from germane.samples.yamltext import Node, parse_yaml
from germane.targets.cli import open_cli
from germane.targets.entry import Entry
from germane.targets.mock import open_mock
from germane.targets.python import open_python
from germane.targets.recorded import open_recorded
from germane.targets.target import Target

__all__ = ["PROVIDERS", "find_targets_file", "open_target"]

Opener: TypeAlias = Callable[[Entry, Section], Target]
PROVIDERS: Mapping[str, Opener] = {
    "mock": open_mock,
    "cli": open_cli,
    "python": open_python,
    "recorded": open_recorded,
}
"""How the entry of each provider is opened."""

NAMES = (".agentv/targets.yaml", "targets.yaml", ".agentv/targets.yml", "targets.yml")
_VARIABLE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_IGNORED = ("description", "judge_target", "grader_target", "verbose", "healthcheck")


def open_target(
    name: str,
    where: str | Path,
    *,
    environ: Mapping[str, str] | None = None,
    warn: Warn | None = None,
) -> Target:
    """The target of that name, ready to answer.

    `where` is a targets file, or the folder from which one is searched upwards to the repository's root.
    `${{ NAME }}` in its entry is taken from the environment. Raises InputError with file, line and column.
    """
    where = Path(where)
    path = find_targets_file(where) if where.is_dir() else where
    entry = _entry(name, path)
    section = Section(_expanded(entry, os.environ if environ is None else environ), f"the target {name}")
    provider = section.take("provider")
    opener = PROVIDERS.get(provider.text or "") if provider else None
    if opener is None:
        said = f"there is no provider {provider.text!r}" if provider else f"the target {name} has no provider"
        fix = f"write {' or '.join(PROVIDERS)}"
        raise InputError(said, fix=fix, place=provider.place if provider else entry.place)
    section.text("name")
    workers = section.whole("workers")
    target = opener(
        Entry(name=name, place=entry.place, folder=path.resolve().parent, workers=workers), section
    )
    for ignored in _IGNORED:
        section.take(ignored)
    section.finish(warn)
    return target


def find_targets_file(folder: Path) -> Path:
    """The nearest targets file in a folder or above it, no further than the repository's root."""
    looked = list(_upwards(folder.resolve()))
    for place in looked:
        for name in NAMES:
            if (place / name).is_file():
                return place / name
    problem = f"there is no targets file in {looked[0]} or above, up to {looked[-1]}"
    raise InputError(problem, fix="write targets.yaml there, or name one with --targets")


def _upwards(folder: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        yield place
        if (place / ".git").exists():
            return


def _entry(name: str, path: Path) -> Node:
    """The entry of that name; InputError with the names that there are."""
    section = Section(parse_yaml(read_text(path), str(path)), "a targets file")
    node = section.take("targets")
    if node is None or node.items is None:
        raise InputError(
            "the file lists no targets",
            fix="write targets: [{name: ..., provider: ...}]",
            place=section.place,
        )
    names: dict[str, Node] = {}
    for item in node.items:
        text = Section(item, "a target").text("name")
        if not text:
            raise InputError("this target has no name", fix="write name: my_rag", place=item.place)
        if text in names:
            problem = f"two targets are named {text!r}"
            raise InputError(problem, fix="give one of them another name", place=item.place)
        names[text] = item
    if name not in names:
        near = nearest(name, names)
        fix = f"did you mean {near}?" if near else f"it has {', '.join(names)}"
        raise InputError(f"there is no target {name!r}", fix=fix, place=Place(str(path)))
    return names[name]


def _expanded(node: Node, environ: Mapping[str, str]) -> Node:
    """The entry with every `${{ NAME }}` replaced by the variable's value."""
    if node.pairs is not None:
        return replace(node, pairs={key: _expanded(inner, environ) for key, inner in node.pairs.items()})
    if node.items is not None:
        return replace(node, items=[_expanded(inner, environ) for inner in node.items])
    text = node.text or ""
    for variable in _VARIABLE.findall(text):
        if variable not in environ:
            problem = f"the environment variable {variable} is not set"
            raise InputError(problem, fix=f"set it: export {variable}=...", place=node.place)
    return replace(node, text=_VARIABLE.sub(lambda match: environ[match[1]], text))
