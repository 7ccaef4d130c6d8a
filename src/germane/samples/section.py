"""A mapping of an eval file, taken apart key by key; what nobody took is said aloud, with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from germane.errors import InputError
from germane.samples.notices import Notice, Warn, fold, nearest
from germane.samples.yamltext import Node
from germane.types import Json

__all__ = ["Section", "as_items", "as_text"]


def as_text(node: Node, what: str) -> str:
    """A scalar as it was written: `no` is "no", `012` is "012"."""
    if node.text is None:
        raise InputError(f"{what} is {node.kind}", fix="write a text", place=node.place)
    return node.text


def as_items(node: Node) -> list[Node]:
    """The items of a list; a single value is a list of one."""
    return [node] if node.items is None else node.items


class Section:
    """One mapping. Keys may be snake_case, camelCase or kebab-case; null counts as absent."""

    def __init__(self, node: Node, what: str) -> None:
        if node.pairs is None:
            raise InputError(f"{what} is {node.kind}", fix="write a mapping: key: value", place=node.place)
        self.node, self.what, self.place = node, what, node.place
        self._left: dict[str, str] = {}
        self._asked: list[str] = []
        for key in node.pairs:
            if (first := self._left.setdefault(fold(key), key)) != key:
                problem = f"{first!r} and {key!r} are the same key"
                raise InputError(problem, fix="keep one of them", place=node.keys[key])

    def take(self, *names: str) -> Node | None:
        """The value under the one of these names that is there; two of them are an error."""
        assert self.node.pairs is not None
        self._asked += names
        found = [key for name in names if (key := self._left.pop(fold(name), None)) is not None]
        filled = [key for key in self.node.pairs if key in found and not self.node.pairs[key].is_null()]
        if len(filled) > 1:
            problem = f"{filled[0]!r} and {filled[1]!r} say the same thing"
            raise InputError(problem, fix="keep one of them", place=self.node.keys[filled[1]])
        return self.node.pairs[filled[0]] if filled else None

    def text(self, *names: str) -> str | None:
        """A text, exactly as written."""
        node = self.take(*names)
        return None if node is None else as_text(node, names[0])

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        """One of a few words."""
        node = self.take(name)
        allowed = list(choices)
        if node is not None and (node.text is None or node.text not in allowed):
            raise InputError(f"{name} is {node.kind}", fix=f"write {' or '.join(allowed)}", place=node.place)
        return None if node is None else node.text

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts; one alone is a list of one."""
        node = self.take(*names)
        return () if node is None else tuple(as_text(item, names[0]) for item in as_items(node))

    def flag(self, *names: str) -> bool:
        """True or false; absent is false."""
        node = self.take(*names)
        value = False if node is None else node.json()
        if not isinstance(value, bool):
            kind = node.kind if node else ""
            raise InputError(
                f"{names[0]} is {kind}", fix="write true or false", place=node.place if node else None
            )
        return value

    def number(self, *names: str, low: float = 0.0) -> float | None:
        """A number that is not below `low`."""
        node = self.take(*names)
        if node is None:
            return None
        value = node.json()
        if isinstance(value, bool) or not isinstance(value, int | float) or value < low:
            raise InputError(
                f"{names[0]} is {node.kind}", fix=f"write a number from {low:g}", place=node.place
            )
        return float(value)

    def whole(self, *names: str, low: int = 0) -> int | None:
        """A whole number that is not below `low`."""
        node = self.take(*names)
        value = None if node is None else node.json()
        if node is not None and (type(value) is not int or value < low):
            raise InputError(
                f"{names[0]} is {node.kind}", fix=f"write a whole number from {low}", place=node.place
            )
        return value

    def mapping(self, *names: str) -> dict[str, Json]:
        """A mapping as JSON; absent is empty."""
        node = self.take(*names)
        if node is not None and node.pairs is None:
            raise InputError(
                f"{names[0]} is {node.kind}", fix="write a mapping: key: value", place=node.place
            )
        return {} if node is None else dict(node.json())

    def section(self, *names: str) -> Section | None:
        """A mapping inside this one."""
        node = self.take(*names)
        return None if node is None else Section(node, names[0])

    def rest(self) -> Iterator[tuple[str, Node]]:
        """What nobody took, under the names it was given; taken with this."""
        assert self.node.pairs is not None
        for folded, key in list(self._left.items()):
            del self._left[folded]
            yield key, self.node.pairs[key]

    def finish(self, warn: Warn | None) -> None:
        """A notice for every key that nobody took."""
        for key in self._left.values():
            if warn is not None and not key.startswith(("$", "x-", "_")):
                near = nearest(key, self._asked)
                fix = f"did you mean {near!r}?" if near else "remove it"
                warn(Notice(f"{self.what} has no key {key!r}: it is ignored", fix, self.node.keys[key]))
