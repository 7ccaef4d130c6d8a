"""Write what the definitions say of each measure into docs/measures.md, between its two marks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from germane.measures.explaining import facts, heading, other_names
from germane.measures.measure import Definition, Param, definitions

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
START = "<!-- from here: made of the definitions in src/germane/measures by scripts/measures_page.py -->\n\n"
END = "\n<!-- to here -->"

Shared: TypeAlias = tuple[str, str, tuple[object, ...]]
"""Name, meaning and choices of a parameter."""


def markdown(definitions: Iterable[Definition]) -> str:
    """Return the parameters that several measures share, then the measures by family."""
    known = list(definitions)
    shared, first = _shared(known), dict[str, Definition]()
    # of parameters alike but for their choices the one with most
    most = {(name, meaning): choices for name, meaning, choices in sorted(shared, key=lambda p: len(p[2]))}
    lines = [
        f"- `{name}`: {meaning}{_choices(choices, meaning)}"
        for (name, meaning), choices in sorted(most.items())
    ]
    parts = ["## Parameters of several measures", "\n".join(lines)]
    for title, family in _FAMILIES:
        members = list(filter(family, known))
        usual = _usual(members)
        names = sorted(
            {n for one in members for n in one.options if any(n == other for other, _, _ in shared)}
        )
        listed = f" Parameters: {', '.join(f'`{name}`' for name in names)}." if names else ""
        own = Counter(param for one in members for param in _own_params(one, shared))
        common = [param for param, number in own.items() if number > 1]
        parts += [f"## {title}", f"Unless a measure says otherwise: {'; '.join(usual)}.{listed}"]
        parts += ["\n".join(f"- {param}" for param in common)] if common else []
        before: Definition | None = None
        for one in members:
            parts.append(
                f"### `{heading(one)}`\n\n{_entry(one, first.get(one.name), before, usual, shared, common)}"
            )
            first.setdefault(one.name, one)
            before = one
    return "\n\n".join(parts) + "\n"


def _entry(
    one: Definition,
    first: Definition | None,
    before: Definition | None,
    usual: list[str],
    shared: set[Shared],
    common: list[str],
) -> str:
    """Return the text below a measure's heading: meaning, formula, exceptions, parameters, other spellings and source.

    `first`: the measure of the same name that stands above; what both have alike is not repeated, nor is a source that the
    measure `before` has.
    """
    meaning, _, rest = one.doc.partition("\n\n")
    text = [" ".join(f"{meaning} {rest}".split())]
    alike = first and first.formula == one.formula
    if alike:
        text.append(f"Formula and parameters as for {first.title}.")  # type: ignore[union-attr]
    elif not _told_by(meaning, one.formula):
        text.append(f"Formula: `{one.formula}`.")
    unusual = [fact for fact in _common_facts(one) if fact not in usual]
    if "Lower is better" in one.doc:
        unusual = [fact.removesuffix(", lower is better") for fact in unusual]
        unusual = [fact for fact in unusual if fact != "range 0 to 1"]
    named = f"also {', '.join(other_names(one))}" if other_names(one) else ""
    known = one.reference == "germane" or (before and before.reference == one.reference)
    source = "" if known else _brief(one.reference.removeprefix("germane; "))
    text += [fact[0].upper() + fact[1:] + "." for fact in ("; ".join(unusual), named) if fact]
    text += [f"({source})"] if source else []
    lines = [f"- {param}" for param in _own_params(one, shared) if param not in common and not alike]
    return "\n".join([" ".join(text), *[""] * bool(lines), *lines])


def _told_by(meaning: str, formula: str) -> bool:
    """Return True if the meaning names what is counted, and of what: a formula in words would repeat it."""
    counted = ("Share of", "The share of", "Number of", "1 if", "1 where")
    return meaning.startswith(counted) and not re.search(r"[*^=(+-]|sum of|\br\b", formula)


def _brief(reference: str) -> str:
    """Return a source as authors, name of the method and year."""
    venue = r"ACM TOIS [\d()]+|TREC-5|SIGIR|CIKM|NeurIPS|EACL|EMNLP|ICLR|Chroma"
    text = re.sub(rf"\((?:{venue}),? (\d{{4}})\)", r"\1", reference)
    return re.sub(rf",? (?:{venue}),? (\d{{4}})", r" \1", text)


def _own_params(one: Definition, shared: set[Shared]) -> Iterator[str]:
    """Yield the parameters that few other measures have, with their defaults."""
    for name, _ in facts(one):
        param, _, _ = name.partition("=")
        if param != name and _param(param, one.options[param]) not in shared:
            meaning = one.options[param].meaning
            yield f"`{name}`: {meaning}{_choices(one.options[param].choices, meaning)}"


def _choices(choices: tuple[object, ...], meaning: str) -> str:
    """Return the values of a parameter in brackets; "" if its meaning names them all."""
    told = all(re.search(rf"\b{re.escape(str(one))}\b", meaning) for one in choices)
    return "" if told else f" ({', '.join(map(str, choices))})"


def _shared(known: Iterable[Definition]) -> set[Shared]:
    """Return the parameters that at least three measures have."""
    count = Counter(_param(name, param) for one in known for name, param in one.options.items())
    return {param for param, number in count.items() if number >= 3}


def _param(name: str, param: Param) -> Shared:
    return name, param.meaning, tuple(param.choices)


def _common_facts(one: Definition) -> list[str]:
    """Return the facts that are left out of a measure where they are usual for its family."""
    texts = dict(facts(one))
    needs, _, calls = texts["needs"].partition("; ")
    return [f"needs {needs}", calls, f"range {texts['range']}", f"empty: {_nothing(one)}"]


def _nothing(one: Definition) -> str:
    """Return the score of nothing to count; what is not known is not retrieved either."""
    known = "nothing relevant is retrieved or known"
    return re.sub(r"nothing relevant is retrieved$", known, one.nothing)


def _usual(members: list[Definition]) -> list[str]:
    """Return those facts that more than a quarter of the family shares."""
    count = Counter(fact for one in members for fact in _common_facts(one))
    best: dict[str, str] = {}
    for fact, number in count.most_common():
        if number * 4 > len(members):
            best.setdefault(_kind(fact), fact)
    return list(best.values())


def _kind(fact: str) -> str:
    return "calls" if "judge calls" in fact else fact.split(maxsplit=1)[0]


def _of_searches(one: Definition) -> bool:
    return "search" in one.formula


_FAMILIES: tuple[tuple[str, Callable[[Definition], bool]], ...] = (
    ("Ranked, over gold labels", lambda one: one.family == "ranked" and one.labels != "judge"),
    ("Ranked, over the judge's verdicts", lambda one: one.family == "ranked" and one.labels == "judge"),
    ("Judged: claims of the reference", lambda one: one.asks and "claims of the reference" in one.calls),
    (
        "Judged: the contexts",
        lambda one: one.asks and "response" not in one.needs and "claims of the reference" not in one.calls,
    ),
    ("Judged: the response", lambda one: one.asks and "response" in one.needs),
    ("Gold evidence in the retrieved text", lambda one: not one.asks and "evidence" in one.needs),
    ("Several searches", lambda one: not one.asks and _of_searches(one)),
    (
        "Gold documents, ids and texts",
        lambda one: (
            one.family != "ranked" and not one.asks and "evidence" not in one.needs and not _of_searches(one)
        ),
    ),
)


def page() -> str:
    """The page with its middle part made anew."""
    head, _, rest = PAGE.read_text("utf-8").partition(START)
    tail = rest.partition(END)[2]
    return f"{head}{START}{markdown(definitions())}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
