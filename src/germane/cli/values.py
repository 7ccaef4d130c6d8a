"""Values of flags that are more than a word."""

from __future__ import annotations

from collections.abc import Sequence

from germane.errors import InputError

__all__ = ["pairs"]


def pairs(given: Sequence[str] | None, flag: str, example: str) -> tuple[tuple[str, str], ...]:
    """`a=b,c=d` and repeated flags as pairs; InputError on anything else."""
    found: dict[str, str] = {}
    for part in (part for text in given or () for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise InputError(f"{flag} {part!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        if name in found:
            raise InputError(f"{flag} gives {name} twice", fix="give it once")
        found[name] = value
    return tuple(found.items())
