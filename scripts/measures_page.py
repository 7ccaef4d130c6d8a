"""Write what the definitions say of each measure into docs/measures.md, between its two marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from germane.measures.measure import Definition, Param, definitions

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
START = "<!-- from here: made of the definitions in src/germane/measures by scripts/measures_page.py -->\n\n"
END = "\n<!-- to here -->"

Shared: TypeAlias = tuple[str, str, tuple[object, ...]]
"""Name, meaning and choices of a parameter."""


def markdown(definitions: Iterable[Definition]) -> str:
    """Return the parameters that several measures share, then the measures by family."""
    known = list(definitions)
    families = [(title, list(filter(family, known))) for title, family in _FAMILIES]
    shared = _shared(known)
    lines = [f"- `{name}`: {meaning}{_choices(choices)}" for name, meaning, choices in sorted(shared)]
    parts = ["## Parameters of several measures", "\n".join(lines)]
    for title, members in families:
        usual = _usual(members)
        names = sorted(
            {name for one in members for name in one.options if any(name == known for known, _, _ in shared)}
        )
        listed = f" Parameters: {', '.join(f'`{name}`' for name in names)}." if names else ""
        parts += [f"## {title}", f"Unless a measure says otherwise: {'; '.join(usual)}.{listed}"]
        for one in members:
            first, _, rest = one.doc.partition("\n\n")
            facts = "\n".join(f"- {line}" for line in _facts(one, usual, shared))
            parts += [f"### `{one.heading}`", " ".join(f"{first} {rest}".split()), facts]
    return "\n\n".join(parts) + "\n"


def _choices(choices: tuple[object, ...]) -> str:
    return f" ({', '.join(map(str, choices))})" if choices else ""


def _shared(known: Iterable[Definition]) -> set[Shared]:
    """Return the parameters that at least three measures have."""
    count = Counter(_param(name, param) for one in known for name, param in one.options.items())
    return {param for param, number in count.items() if number >= 3}


def _param(name: str, param: Param) -> Shared:
    return name, param.meaning, tuple(param.choices)


def _common_facts(one: Definition) -> list[str]:
    """Return the facts that are left out of a measure where they are usual for its family."""
    calls = "no judge calls" if one.cost == "0" else f"judge calls: {one.cost}"
    return [f"needs {one.all_needs}", calls, f"range {one.span}", f"nothing to count: {one.nothing}"]


def _usual(members: list[Definition]) -> list[str]:
    """Return those facts that more than a third of the family shares."""
    count = Counter(fact for one in members for fact in _common_facts(one))
    best: dict[str, str] = {}
    for fact, number in count.most_common():
        if number * 3 > len(members):
            best.setdefault(_kind(fact), fact)
    return list(best.values())


def _kind(fact: str) -> str:
    return "calls" if "judge calls" in fact else fact.split(maxsplit=1)[0]


def _facts(one: Definition, usual: list[str], shared: set[Shared]) -> Iterator[str]:
    yield f"formula: {one.formula}"
    if unusual := [fact for fact in _common_facts(one) if fact not in usual]:
        yield "; ".join(unusual)
    for name, text in one.facts():
        param, _, _ = name.partition("=")
        if param != name and _param(param, one.options[param]) not in shared:
            yield f"`{name}`: {text.replace(' | ', ', ')}"
    named = f"also spelled {', '.join(one.spellings)}" if one.spellings else ""
    source = f"source: {one.reference}" if one.reference != "germane" else ""
    if named or source:
        yield "; ".join(filter(None, [named, source]))


_FAMILIES: tuple[tuple[str, Callable[[Definition], bool]], ...] = (
    ("Ranked, over gold labels", lambda one: one.family == "ranked" and one.labels != "judge"),
    ("Ranked, over the judge's verdicts", lambda one: one.family == "ranked" and one.labels == "judge"),
    ("Judged: claims of the reference", lambda one: one.asks and "claims of the reference" in one.cost),
    ("Judged: the response", lambda one: one.asks and "response" in one.all_needs),
    (
        "Judged: the contexts",
        lambda one: (
            one.asks and "response" not in one.all_needs and "claims of the reference" not in one.cost
        ),
    ),
    ("From gold and scores alone", lambda one: one.family != "ranked" and not one.asks),
)


def page() -> str:
    """The page with its middle part made anew."""
    head, _, rest = PAGE.read_text("utf-8").partition(START)
    tail = rest.partition(END)[2]
    return f"{head}{START}{markdown(definitions())}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
