"""Write what the definitions say of each measure into docs/measures.md, between its two marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from germane.measures.measure import Definition, definitions

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
START = "<!-- from here: made of the definitions in src/germane/measures by scripts/measures_page.py -->\n\n"
END = "\n<!-- to here -->"


def markdown(definitions: Iterable[Definition]) -> str:
    """The page of the documentation: a table of all measures, then each in full, by what is read."""
    known = list(definitions)
    table = ["| measure | needs | judge calls | range |", "| --- | --- | --- | --- |"]
    for definition in known:
        anchor = "".join(c for c in definition.heading.lower() if c.isalnum() or c in "_-")
        calls = definition.cost.replace("|", "\\|")
        table.append(
            f"| [`{definition.heading}`](#{anchor}) | {definition.all_needs} | {calls} | {definition.span} |"
        )
    parts = ["\n".join(table)]
    for title, family in _FAMILIES:
        parts.append(f"## {title}")
        for definition in filter(family, known):
            first, _, rest = definition.doc.partition("\n\n")
            parts += [f"### `{definition.heading}`", " ".join(first.split()), *filter(None, [rest])]
            named = ((f"`{name}`" if "=" in name else name, text) for name, text in definition.facts())
            parts.append("\n".join(f"- {name}: {text}" for name, text in named))
    return "\n\n".join(parts) + "\n"


_FAMILIES: tuple[tuple[str, Callable[[Definition], bool]], ...] = (
    (
        "Ranked, over gold labels",
        lambda definition: definition.family == "ranked" and definition.labels != "judge",
    ),
    (
        "Ranked, over the judge's verdicts",
        lambda definition: definition.family == "ranked" and definition.labels == "judge",
    ),
    ("Judged", lambda definition: definition.asks),
    ("From gold and scores alone", lambda definition: definition.family != "ranked" and not definition.asks),
)


def page() -> str:
    """The page with its middle part made anew."""
    head, _, rest = PAGE.read_text("utf-8").partition(START)
    tail = rest.partition(END)[2]
    return f"{head}{START}{markdown(definitions())}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
