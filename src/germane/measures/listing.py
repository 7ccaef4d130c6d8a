"""Measures as text: the list of `germane measures` and the page of the documentation, made of the definitions themselves.

`python -m germane.measures.listing` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isinf

from germane.measures.measure import Definition, Param
from germane.types import Json

__all__ = ["as_json", "listing", "markdown", "one", "page"]


def as_json(definition: Definition) -> dict[str, Json]:
    """Everything the registry knows of a measure that can be said in JSON; no end of the range is null."""
    return {
        "name": definition.title,
        "family": definition.family,
        "formula": definition.formula,
        "doc": definition.doc,
        "needs": list(definition.needs),
        "calls": _calls(definition),
        "range": [None if isinf(end) else end for end in definition.range],
        "better": definition.better,
        "cutoff": definition.cutoff,
        "labels": definition.labels,
        "nothing": definition.nothing,
        "reference": definition.reference,
        "aliases": _spellings(definition),
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "meaning": param.meaning}
            for name, param in _params(definition).items()
        },
    }


def _calls(definition: Definition) -> str:
    """What a sample costs in answers of a judge; a ranked measure asks for a verdict a context where it reads a judge."""
    if definition.family == "ranked":
        return "1 a context" if definition.labels in {"judge", "best"} else "0"
    return definition.calls


def _spellings(definition: Definition) -> list[str]:
    return sorted({*definition.aliases, *definition.presets})


def _params(definition: Definition) -> dict[str, Param]:
    """The parameters that a user can still choose: not the one that chose this definition."""
    found = {name: param for name, param in definition.params.items() if name not in definition.when}
    if "labels" in found:
        found["labels"] = replace(found["labels"], choices=definition.sources)
    return found


def _head(definition: Definition) -> str:
    return definition.title + {"required": "@k", "optional": "[@k]", "none": ""}[definition.cutoff]


def _range(definition: Definition) -> str:
    low, high = definition.range
    better = "" if definition.better == "higher" else ", lower is better"
    return f"{low:g} and up{better}" if isinf(high) else f"{low:g} to {high:g}{better}"


def _needs(definition: Definition) -> str:
    """What a sample must have; a ranked measure needs labels too, by default gold ones."""
    gold = ("qrels",) if definition.family == "ranked" and definition.labels == "gold" else ()
    return ", ".join((*definition.needs, *gold)) or "nothing"


def _cost(definition: Definition) -> str:
    calls = _calls(definition)
    return "no judge calls" if calls == "0" else f"judge calls: {calls}"


def listing(definitions: Iterable[Definition]) -> str:
    """One short paragraph a measure."""
    return "\n\n".join(map(_short, definitions))


def _short(definition: Definition) -> str:
    lower = "; lower is better" if definition.better == "lower" else ""
    source = f"; from {definition.reference}" if definition.reference else ""
    lines = [
        f"{_head(definition)}  {definition.doc.partition(chr(10))[0]}",
        f"    = {definition.formula}",
        f"    needs {_needs(definition)}; {_cost(definition)}{lower}{source}",
    ]
    return "\n".join(lines)


def one(definition: Definition) -> str:
    """One measure in full."""
    rest = definition.doc.splitlines()[1:]
    lines = [_short(definition), *(["", *rest] if any(rest) else []), "", f"range {_range(definition)}"]
    lines += [f"nothing to count: {definition.nothing}"] if definition.nothing else []
    params = [
        f"    {name}={_default(param)}  {_meaning(param)}" for name, param in _params(definition).items()
    ]
    lines += ["parameters", *params] if params else []
    if spellings := _spellings(definition):
        lines.append(f"also spelled {', '.join(spellings)}")
    return "\n".join(lines)


def _default(param: Param) -> str:
    if param.default is None:
        return "(none)" if param.type is float else "(by the labels)"
    return str(param.default).lower() if param.type is bool else str(param.default)


def _meaning(param: Param) -> str:
    choices = f" ({' | '.join(map(str, param.choices))})" if param.choices else ""
    return f"{param.meaning}{choices}"


def markdown(definitions: Iterable[Definition]) -> str:
    """The page of the documentation: a table of all measures, then each in full, by what is read."""
    known = [one for one in definitions if one.name != "code_judge"]
    parts = [_INTRO, "| measure | needs | judge calls | range |\n| --- | --- | --- | --- |"]
    parts[-1] += "".join(
        f"\n| [`{_head(d)}`](#{_anchor(d)}) | {_needs(d)} | {_cell(_calls(d))} | {_range(d)} |" for d in known
    )
    for title, wanted in _FAMILIES:
        mine = [definition for definition in known if wanted == _family(definition)]
        parts += [f"## {title}", *(part for definition in mine for part in _section(definition))]
    return "\n\n".join(parts) + "\n"


_FAMILIES = (
    ("Ranked, over gold labels", "gold"),
    ("Ranked, over the judge's verdicts", "judge"),
    ("Judged", "judged"),
    ("From gold and scores alone", "free"),
)

_INTRO = """# Measures

<!-- Made by `python -m germane.measures.listing` from the definitions in src/germane/measures. Change these. -->

A measure has one name, the same in Python, on the command line, in eval files and in reports: `nDCG@10`, `P(rel=2)@5`,
`context_precision@5`. `[@k]`: a cut-off may be given, `@k`: it must be. `labels=` chooses whose labels a ranked measure
reads (gold, judge, human, best); `over=` what becomes of several searches for one question. A score that could not be
measured is never 0: it is skipped, incomplete (with exact bounds) or an error, and says why. Contexts that all are empty
texts are as if nothing had been retrieved, for every measure that a judge is asked for. Your own measures: `germane run
DATA -m my_measures.py:first_hit`, see the end of this page."""


def _family(definition: Definition) -> str:
    if definition.family == "ranked":
        return "judge" if definition.labels == "judge" else "gold"
    return "judged" if definition.asks else "free"


def _anchor(definition: Definition) -> str:
    return "".join(c for c in _head(definition).lower() if c.isalnum() or c in "_-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section(definition: Definition) -> Iterator[str]:
    first, _, rest = definition.doc.partition("\n\n")
    yield f"### `{_head(definition)}`"
    yield " ".join(first.split())
    if rest:
        yield rest
    rows = [f"- formula: {definition.formula}", f"- range: {_range(definition)}"]
    rows.append(f"- needs: {_needs(definition)}; {_cost(definition)}")
    rows += [f"- nothing to count: {definition.nothing}"] if definition.nothing else []
    rows += [
        f"- `{name}={_default(param)}`: {_meaning(param)}" for name, param in _params(definition).items()
    ]
    rows += [f"- also spelled: {', '.join(_spellings(definition))}"] if _spellings(definition) else []
    rows += [f"- source: {definition.reference}"] if definition.reference else []
    yield "\n".join(rows)


_OWN = '''## Your own

Ten lines in a file of yours, `my_measures.py`:

```python
from germane.measures import measure


@measure(needs=("contexts", "qrels"))
def first_hit(sample, least: int = 1):
    """1 if the first context is a gold document, else 0."""
    if not sample.contexts:
        return 0
    return sample.qrels.get(sample.contexts[0].id, 0) >= least
```

```
germane run data.jsonl -m my_measures.py:first_hit -m "my_measures.py:first_hit(least=2)"
```

A formula on the labels of a ranking needs no more; label source, threshold, cut-off, several calls, missing verdicts and
explanations are what they are for every ranked measure:

```python
from germane.measures import ranked_measure


@ranked_measure
def top_heavy(relevant, share: float = 0.5):
    """The first relevant place counts `share`, each further one that much of what is left."""
    left = 1.0
    for hit in relevant:
        left *= 1 - share * hit
    return 1 - left
```

One that asks the judge is a generator of questions; `proportion` makes the score, its bounds where an answer is missing,
and its explanation:

```python
from germane.questions import Claims, Support
from germane.measures import Item, ask, measure, proportion


@measure(needs=("contexts", "reference"))
def first_context_recall(sample):
    """Share of the reference's claims that the first context alone supports."""
    claims = yield from ask(Claims(sample.query, sample.reference))
    support = yield from ask(Support(claims, (sample.contexts[0].text,)))
    return proportion([Item(claim, bool(one.contexts)) for claim, one in zip(claims, support)])
```

A package offers its measures through the entry-point group `germane.measures`; they are then known by their names.'''


def page() -> str:
    """The whole page docs/measures.md."""
    import germane.measures  # importing them all is what defines them
    from germane.measures.measure import definitions

    del germane
    return f"{markdown(definitions())}\n{_OWN}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
