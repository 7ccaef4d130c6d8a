"""Reads YAML strictly into a tree of nodes that know the line and column of every key and value.

The tree is built from parser events, since the usual loaders lose line numbers, keep the last of two equal
keys, read `no` as False and expand aliases without a limit. Values follow the core schema of YAML 1.2: only
`true` and `false` are booleans, only decimal, `0o` and `0x` numbers are integers. A scalar keeps its text for
fields that need the text.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from germane.errors import InputError, SourceLocation
from germane.samples.files import check_trusted, location_in
from germane.types import MAX_DEPTH, Json, Step

__all__ = ["Node", "node_of", "parse_yaml"]

_EXPANSION = 100_000
_CORE = "tag:yaml.org,2002:"
_TAGS = {None, "", "!", *(_CORE + kind for kind in ("str", "int", "float", "bool", "null", "map", "seq"))}
_NULLS = {"", "~", "null", "Null", "NULL"}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(_NULLS),
    **{word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")},
}
_INTEGERS = {10: re.compile(r"[-+]?[0-9]+"), 8: re.compile(r"0o[0-7]+"), 16: re.compile(r"0x[0-9a-fA-F]+")}
_FLOAT = re.compile(
    r"[-+]?((\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN)|nan|inf)"
)
_CONTROL = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIXES = {
    "mapping values are not allowed": "put quotes around a string that contains ': '",
    "could not find expected ':'": "write key: value, with the same indentation as the other keys",
    "did not find expected key": "give the keys of a mapping the same indentation, and close every quote",
    "did not find expected '-' indicator": "give the items of a list the same indentation",
    "found character that cannot start any token": "put quotes around a string that starts with @, ` or %",
    "found unexpected end of stream": "close every quote and bracket",
}


@dataclass(slots=True)
class Node:
    """A YAML value with its location in the file: a scalar, a list or a mapping.

    A scalar has `text`, and is `plain` without quotes. A list has `items`. A mapping has `pairs`, and `keys`
    with the location of each key. `size` is the number of values in the tree. `spelt` maps each field of the
    model built from a mapping to the key as written.
    """

    location: SourceLocation
    text: str | None = None
    plain: bool = False
    items: list[Node] | None = None
    pairs: dict[str, Node] | None = None
    keys: dict[str, SourceLocation] = field(default_factory=dict)
    size: int = 1
    spelt: dict[str, str] = field(default_factory=dict)
    """Maps each field of the model built from this mapping to the key as written in the file."""

    @property
    def kind(self) -> str:
        """A description of the value for messages: "a mapping", "a list", "nothing", "the string 'abc'"."""
        if self.text is None:
            return "a mapping" if self.items is None else "a list" if self.items else "an empty list"
        if self.is_null():
            return "nothing"
        return f"the string {self.text!r}"[:60] if self.text else "an empty string"

    def is_null(self) -> bool:
        """Return True if the value is empty, or is `~` or `null` without quotes."""
        return self.plain and self.text in _NULLS

    def fault(self, problem: str, fix: str) -> InputError:
        """Return an InputError whose location is that of this value."""
        return InputError(problem, fix=fix, place=self.location)

    def json(self) -> Json:
        """Return the value as JSON. Raises InputError for a number that is not finite."""
        if self.pairs is not None:
            return {key: inner.json() for key, inner in self.pairs.items()}
        if self.items is not None:
            return [inner.json() for inner in self.items]
        text = self.text or ""
        if not self.plain or text in _WORDS:
            return _WORDS[text] if self.plain else text
        for base, pattern in _INTEGERS.items():
            if pattern.fullmatch(text) and len(text) < 4000:
                return int(text, base)
        if not _FLOAT.fullmatch(text):
            return text
        with suppress(ValueError):  # .inf and .nan, as YAML writes them
            if math.isfinite(number := float(text)):
                return number
        fix = "write a finite number, or put quotes around a string"
        raise self.fault(f"{text[:40]} is not a finite number", fix)

    def at(self, path: Sequence[Step]) -> SourceLocation:
        """Return the location of the value at a path, or of the last value on the path that exists."""
        step = path[0] if path else None
        if isinstance(step, int) and self.items and step < len(self.items):
            return self.items[step].at(path[1:])
        if isinstance(step, str) and self.pairs and step in self.pairs:
            return self.pairs[step].at(path[1:]) if path[1:] else self.keys[step]
        return self.location

    def follow(self, path: Sequence[Step]) -> tuple[tuple[Step, ...], Node]:
        """Convert a path of field names and indices to one of the keys as written in the file.

        Return it and the node at its end. Steps that do not exist in the file are left out.
        """
        node, steps = self, list[Step]()
        for step in path:
            inner: Node | None = None
            if isinstance(step, int) and node.items and step < len(node.items):
                inner = node.items[step]
            elif isinstance(step, str) and node.pairs is not None:
                step = node.spelt.get(step, step)  # noqa: PLW2901 - the key as it is written in the file
                inner = node.pairs.get(step)
            if inner is not None:
                node = inner
                steps.append(step)
        return tuple(steps), node


def node_of(value: Json, location: SourceLocation) -> Node:
    """Return a JSON value as a tree of nodes that all have the same location."""
    if isinstance(value, Mapping):
        pairs = {str(key): node_of(inner, location) for key, inner in value.items()}
        return Node(location, pairs=pairs, keys=dict.fromkeys(pairs, location))
    if isinstance(value, list | tuple):
        return Node(location, items=[node_of(inner, location) for inner in value])
    if isinstance(value, str):
        return Node(location, text=value)
    return Node(location, text=json.dumps(value), plain=True)


_VARIABLE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def with_environment(node: Node, *, strict: bool = True) -> Node:
    """Return the tree with every `${{ NAME }}` replaced by the value of the environment variable NAME.

    Raises InputError if the file is not trusted, or if a variable is not set and `strict` is True.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        check_trusted(f"the environment variable {name} would be read", node.location)
        if strict and name not in os.environ:
            raise node.fault(f"the environment variable {name} is not set", f"set it: export {name}=...")
        return os.environ.get(name, match[0])

    if node.text is not None:
        return replace(node, text=_VARIABLE.sub(value, node.text)) if "${{" in node.text else node
    if node.items is not None:
        return replace(node, items=[with_environment(inner, strict=strict) for inner in node.items])
    pairs = {key: with_environment(inner, strict=strict) for key, inner in (node.pairs or {}).items()}
    return replace(node, pairs=pairs)


def unset_variables(node: Node) -> list[str]:
    """Return a description of each environment variable in the tree (`${{ NAME }}`) that is not set."""
    names = (name for name in _VARIABLE.findall(node.text or "") if name not in os.environ)
    found = [f"the environment variable {name} (it is not set)" for name in names]
    for inner in (*(node.pairs or {}).values(), *(node.items or ())):
        found += unset_variables(inner)
    return list(dict.fromkeys(found))


def parse_yaml(text: str, file: str) -> Node:
    """Parse a YAML document and return its root node; `file` is the file's name in locations.

    Raises InputError if the text is invalid, empty or contains several documents.
    """
    if control := _CONTROL.search(text):
        location = location_in(file, text, control.start())
        problem = f"the control character U+{ord(control[0]):04X} is not allowed in YAML"
        raise InputError(problem, fix="remove the character", place=location)
    builder = _Builder(file)
    try:
        node = builder.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        written = next(iter(text.splitlines()[line:]), "")
        problem = (error.problem or "unreadable").strip()
        fixes = (fix for start, fix in _FIXES.items() if problem.startswith(start))
        fix = next(fixes, "check the indentation and quotes")
        if "\t" in written[: len(written) - len(written.lstrip())] or written[column : column + 1] == "\t":
            fix = "indent with spaces: YAML allows no tabs there"
        place = SourceLocation(file, line + 1, column + 1)
        raise InputError(f"this is not valid YAML: {problem}", fix=fix, place=place) from None
    if node is None or node.is_null():
        fix = "write an eval file, such as the example that `germane init` creates"
        raise InputError("the file is empty", fix=fix, place=SourceLocation(file, 1, 1))
    return node


class _Builder:
    """Builds a tree of nodes from the events of a YAML parser, with limits for depth and aliases."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._unfolded = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        """Return the root node of the only document, or None if there is none."""
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                fix = "put each document into its own file"
                raise InputError("a second YAML document starts here", fix=fix, place=self._location(event))
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, 1)
        return root

    def _location(self, event: Any) -> SourceLocation:
        return SourceLocation(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        """Return the node that begins with `event`; `depth` is its depth of nesting."""
        location = self._location(event)
        if isinstance(event, yaml.AliasEvent):
            anchor = str(event.anchor)
            if (aliased := self._anchors.get(anchor)) is None:
                problem = f"the alias *{anchor} has no anchor &{anchor} above it"
                fix = f"write &{anchor} before the value that it stands for"
                raise InputError(problem, fix=fix, place=location)
            self._unfolded += aliased.size
            if self._unfolded > _EXPANSION:
                problem = f"the aliases (*{anchor}, ...) expand to more than {_EXPANSION:,} values"
                raise InputError(problem, fix="write the values without aliases", place=location)
            return aliased
        if depth > MAX_DEPTH:
            problem = f"this value is nested more than {MAX_DEPTH} levels deep"
            raise InputError(problem, fix=f"nest at most {MAX_DEPTH} lists and mappings", place=location)
        if event.tag not in _TAGS:
            tag = event.tag.replace(_CORE, "!!")
            fix = f"write the value without {tag}"
            raise InputError(f"the YAML tag {tag} is not supported", fix=fix, place=location)
        if isinstance(event, yaml.ScalarEvent):
            if "\0" in event.value:  # escaped; no path, command or query can hold it
                problem = "the string contains the character U+0000, which is not allowed"
                raise InputError(problem, fix="remove the character", place=location)
            plain = event.style in {None, ""} and event.tag not in {"!", f"{_CORE}str"}
            node = Node(location, text=event.value, plain=plain)
        elif isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                items.append(self._node(inner, events, depth + 1))
            node = Node(location, items=items, size=1 + sum(item.size for item in items))
        else:
            node = self._mapping(events, depth, location)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _mapping(self, events: Iterator[Any], depth: int, location: SourceLocation) -> Node:
        pairs: dict[str, Node] = {}
        keys: dict[str, SourceLocation] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            if key.text is None:
                raise key.fault(f"a key of this mapping is {key.kind}, not a string", "write key: value")
            if key.text == "<<" and key.plain:
                raise key.fault("merge keys (<<) are not supported", "write the merged keys themselves")
            if key.text in keys:
                problem = f"the key {key.text!r} occurs twice, first on line {keys[key.text].line}"
                raise key.fault(problem, f"keep one {key.text}")
            pairs[key.text], keys[key.text] = value, key.location
        return Node(location, pairs=pairs, keys=keys, size=1 + sum(value.size for value in pairs.values()))
