"""Measures as text: the list of `germane measures`, made from the same definitions that compute them."""

from __future__ import annotations

from collections.abc import Iterable

from germane.measures.measure import Definition
from germane.types import Json

__all__ = ["as_json", "listing", "one"]


def as_json(definition: Definition) -> dict[str, Json]:
    """Everything the registry knows of a measure that can be said in JSON."""
    return {
        "name": definition.title,
        "family": definition.family,
        "formula": definition.formula,
        "doc": definition.doc,
        "needs": list(definition.needs),
        "calls": definition.calls,
        "range": list(definition.range),
        "cutoff": definition.cutoff,
        "labels": definition.labels,
        "nothing": definition.nothing,
        "reference": definition.reference,
        "aliases": sorted({*definition.aliases, *definition.presets}),
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "meaning": param.meaning}
            for name, param in definition.params.items()
        },
    }


def listing(definitions: Iterable[Definition]) -> str:
    """One short paragraph a measure."""
    return "\n\n".join(map(_short, definitions))


def _short(definition: Definition) -> str:
    head = f"{definition.title}{'@k' if definition.cutoff == 'required' else '[@k]' if definition.cutoff == 'optional' else ''}"
    calls = "no judge calls" if definition.calls == "0" else f"judge calls: {definition.calls}"
    lines = [
        f"{head}  {definition.doc.splitlines()[0]}",
        f"    = {definition.formula}",
        f"    needs {', '.join(definition.needs) or 'nothing'}; {calls}; from {definition.reference or 'germane'}",
    ]
    return "\n".join(lines)


def one(definition: Definition) -> str:
    """One measure in full."""
    params = [
        f"    {name}={param.default if param.default is not None else '(by the labels)'}  {param.meaning}"
        for name, param in definition.params.items()
    ]
    low, high = definition.range
    rest = definition.doc.splitlines()[1:]
    lines = [_short(definition), *(["", *rest] if any(rest) else []), "", f"range {low:g} to {high:g}"]
    lines += [f"nothing to count: {definition.nothing}"] if definition.nothing else []
    lines += ["parameters", *params] if params else []
    if spellings := sorted({*definition.aliases, *definition.presets}):
        lines.append(f"also spelled {', '.join(spellings)}")
    return "\n".join(lines)
