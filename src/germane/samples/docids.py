"""Document ids from chunk ids: `doc-<urn:uuid:U>::chunk-3` is a part of the document `urn:uuid:U`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from germane.errors import InputError
from germane.types import Context, Sample

__all__ = ["compile_rule", "document_id"]


def compile_rule(pattern: str | None) -> Callable[[Sample], Sample]:
    """What maps the ids of a sample's contexts (of its calls too) to document ids; None changes nothing.

    The id becomes the part that the pattern's first group matches, or its whole match where it has no group; an
    id without a match stays as it is. Gold ids are document ids already.
    """
    if pattern is None:
        return _as_it_is
    rule = _compiled(pattern)

    def mapped(contexts: tuple[Context, ...]) -> tuple[Context, ...]:
        return tuple(c if c.id is None else replace(c, id=document_id(rule, c.id)) for c in contexts)

    def apply(sample: Sample) -> Sample:
        if sample.contexts is None and sample.calls is None:
            return sample
        contexts = None if sample.contexts is None else mapped(sample.contexts)
        calls = None
        if sample.calls is not None:
            calls = tuple(replace(call, contexts=mapped(call.contexts)) for call in sample.calls)
        return replace(sample, contexts=contexts, calls=calls)

    return apply


def document_id(rule: re.Pattern[str], chunk: str) -> str:
    """The document's id in a chunk's id; the same id where the rule finds nothing in it."""
    match = rule.search(chunk)
    return (match[1 if rule.groups else 0] if match else None) or chunk


def _as_it_is(sample: Sample) -> Sample:
    return sample


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        fix = "write a regular expression like '<(urn:uuid:[^>]+)>'"
        raise InputError(f"doc-id: {pattern!r} is no regular expression: {error}", fix=fix) from None
