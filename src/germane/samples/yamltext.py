"""YAML, strictly, as a tree that knows the line and column of every key and value.

Built from the parser's events, because the usual loaders lose the places, take the last of two equal keys, read
`no` as False and expand aliases without end. Values follow the core schema of YAML 1.2: only `true` and `false` are
booleans, only decimal, `0o` and `0x` are whole numbers; and a text that is wanted as text stays what it was written as.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from germane.errors import InputError, Place
from germane.samples.kinds import MAX_DEPTH
from germane.samples.wrong import Step
from germane.types import Json

__all__ = ["Node", "parse_yaml"]

_EXPANSION = 100_000
_CORE = "tag:yaml.org,2002:"
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGERS = {10: re.compile(r"[-+]?[0-9]+"), 8: re.compile(r"0o[0-7]+"), 16: re.compile(r"0x[0-9a-fA-F]+")}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(inf|Inf|INF|nan|NaN|NAN)|[-+]?nan|[-+]?inf")
_CONTROL = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIXES = {
    "mapping values are not allowed": "put quotes around a text that contains ': '",
    "could not find expected ':'": "write key: value, indented alike",
    "did not find expected key": "indent the keys of one mapping alike, and close every quote",
    "did not find expected '-' indicator": "indent the items of one list alike",
    "found character that cannot start any token": "put quotes around a text that starts with @, ` or %",
    "found unexpected end of stream": "close every quote and bracket",
}


@dataclass(slots=True)
class Node:
    """A value of a YAML file: a scalar with its text, a list, or a mapping with the place of each key."""

    place: Place
    text: str | None = None
    plain: bool = False
    items: list[Node] | None = None
    pairs: dict[str, Node] | None = None
    keys: dict[str, Place] = field(default_factory=dict)
    size: int = 1

    @property
    def kind(self) -> str:
        """What it is, in a message."""
        if self.text is None:
            return "a list" if self.items is not None else "a mapping"
        return (
            "nothing" if self.is_null() else f"the text {self.text!r}"[:60] if self.text else "an empty text"
        )

    def is_null(self) -> bool:
        """Whether it says nothing: empty, `~` or `null`."""
        return self.plain and self.text in _NULLS

    def json(self) -> Json:
        """The value as JSON; InputError on a number that is not finite."""
        if self.pairs is not None:
            return {key: inner.json() for key, inner in self.pairs.items()}
        if self.items is not None:
            return [inner.json() for inner in self.items]
        return _plain_value(self) if self.plain else self.text

    def at(self, path: Sequence[Step]) -> Place:
        """The place of what stands at a path below it, or of the last thing on the way that is there."""
        if not path:
            return self.place
        step, rest = path[0], path[1:]
        if isinstance(step, int) and self.items and step < len(self.items):
            return self.items[step].at(rest)
        if isinstance(step, str) and self.pairs and step in self.pairs:
            return self.pairs[step].at(rest) if rest else self.keys[step]
        return self.place


def _plain_value(node: Node) -> Json:
    text = node.text or ""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    for base, pattern in _INTEGERS.items():
        if pattern.fullmatch(text) and len(text) < 4000:
            return int(text, base)
    if _FLOAT.fullmatch(text) and abs(number := float(text)) != float("inf"):
        return number
    if _FLOAT.fullmatch(text) or _ENDLESS.fullmatch(text):
        raise InputError(
            f"{text[:40]} is no finite number", fix="leave it out or put it in quotes", place=node.place
        )
    return text


def parse_yaml(text: str, file: str) -> Node:
    """The one document of a YAML text; InputError where it is none, or more than one."""
    if control := _CONTROL.search(text):
        place = _offset_place(text, control.start(), file)
        raise InputError(
            f"the character U+{ord(control[0]):04X} is not allowed in YAML", fix="remove it", place=place
        )
    builder = _Builder(file)
    try:
        node = builder.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text, file) from None
    if node is None or node.is_null():
        raise InputError(
            "the file is empty", fix="write what to evaluate; see `germane init`", place=Place(file)
        )
    return node


def _offset_place(text: str, offset: int, file: str) -> Place:
    before = text[:offset]
    return Place(file, before.count("\n") + 1, offset - before.rfind("\n"))


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    written = lines[line] if line < len(lines) else ""
    problem = (error.problem or "unreadable").strip()
    fix = next(
        (fix for start, fix in _FIXES.items() if problem.startswith(start)),
        "check the indentation and quotes",
    )
    if "\t" in written[: len(written) - len(written.lstrip())] or written[column : column + 1] == "\t":
        fix = "indent with spaces: YAML allows no tabs there"
    return InputError(f"this is not YAML: {problem}", fix=fix, place=Place(file, line + 1, column + 1))


class _Builder:
    """Events to nodes, with a limit on depth and on what aliases unfold to."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._unfolded = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        """The root of the only document; None where there is none."""
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                fix = "split it into one file a document"
                raise InputError("a second YAML document starts here", fix=fix, place=self._place(event))
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, 1)
        return root

    def _place(self, event: Any) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        place = self._place(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), place)
        if depth > MAX_DEPTH:
            raise InputError(f"nested more than {MAX_DEPTH} levels deep", fix="write it flatter", place=place)
        self._check_tag(event.tag, place)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style in {None, ""} and event.tag not in {"!", f"{_CORE}str"}
            node = Node(place, text=event.value, plain=plain)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(events, depth, place)
        else:
            node = self._mapping(events, depth, place)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _check_tag(self, tag: str | None, place: Place) -> None:
        if (
            tag
            and tag != "!"
            and tag not in {f"{_CORE}{t}" for t in ("str", "int", "float", "bool", "null", "map", "seq")}
        ):
            shown = tag.replace(_CORE, "!!")
            raise InputError(f"the tag {shown} is not read", fix="write the value without a tag", place=place)

    def _alias(self, anchor: str, place: Place) -> Node:
        if anchor not in self._anchors:
            problem = f"*{anchor} refers to nothing above it"
            raise InputError(problem, fix=f"write &{anchor} before the value meant", place=place)
        node = self._anchors[anchor]
        self._unfolded += node.size
        if self._unfolded > _EXPANSION:
            raise InputError("the aliases unfold to too much", fix="write the values out", place=place)
        return node

    def _sequence(self, events: Iterator[Any], depth: int, place: Place) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._node(event, events, depth + 1))
        return Node(place, items=items, size=1 + sum(item.size for item in items))

    def _mapping(self, events: Iterator[Any], depth: int, place: Place) -> Node:
        pairs: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            if key.text is None:
                raise InputError(f"a key is {key.kind}", fix="write a text as the key", place=key.place)
            if key.text == "<<" and key.plain:
                merged += self._merged(value)
                continue
            if key.text in keys:
                problem = f"the key {key.text!r} is there twice, first on line {keys[key.text].line}"
                raise InputError(problem, fix="keep one of the two", place=key.place)
            pairs[key.text], keys[key.text] = value, key.place
        for source in merged:
            for name, value in (source.pairs or {}).items():
                if name not in keys:
                    pairs[name], keys[name] = value, source.keys[name]
        return Node(place, pairs=pairs, keys=keys, size=1 + sum(value.size for value in pairs.values()))

    def _merged(self, value: Node) -> list[Node]:
        sources = [value] if value.items is None else value.items
        for source in sources:
            if source.pairs is None:
                raise InputError(
                    f"<< merges {source.kind}", fix="write <<: *name of a mapping", place=source.place
                )
        return sources
