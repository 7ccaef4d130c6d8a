"""Tell who judged two systems, and whether their verdicts may be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from germane.reports.manifest import models_in
from germane.reports.pairing import MeasureComparison, PairedSystems, Side


def verdicts_of(sides: Iterable[Side], measure: str) -> Literal["judge", "labels", "mixed"]:
    """Return where a measure's verdicts come from: a judge, labels (gold or people's), or a mix of both."""
    sources = {side.source(measure) for side in sides}
    return "mixed" if "best" in sources else "judge" if "judge" in sources else "labels"


def compared(pair: PairedSystems, measure: str) -> MeasureComparison:
    """Return the comparison of a measure over all cases, with the reason if it cannot be decided."""
    comparison = pair.compare(measure)
    judged = verdicts_of((pair.a, pair.b), measure) != "labels"
    differ = how_judged(pair.a, pair.b, [measure]) if judged else ""
    return comparison.replace(undecided_why=differ or pair.too_few(comparison))


def how_judged(a: Side, b: Side, measures: Sequence[str]) -> str:
    """Return a sentence on how the judging of two systems differs for these measures; "" if it does not."""
    if a.report is b.report:
        return ""
    judge, other = a.report.judge, b.report.judge
    source = str(judge.source)
    if source != str(other.source):
        return f"{a.name} was judged by {source}, {b.name} by {other.source}"
    both = f"{a.name} and {b.name} were judged"
    if judge.identity and other.identity and (names := _differing(judge.identity, other.identity)):
        return f"{both} by {source} with different {', '.join(names)}"
    for key, what in (("settings", ""), ("prompts", "prompts of ")):
        ours, theirs = (side.report.manifest.get(key) or {} for side in (a, b))
        names = _differing(ours, theirs) if ours and theirs else []
        if names := [name for name in names if key == "settings" or (name in ours and name in theirs)]:
            return f"{both} with different {what}{', '.join(names)}"
    for name in measures:
        served, others = _served(a, name), _served(b, name)
        if served and others and not served.keys() & others.keys():
            models = f"{a.name} by {', '.join(served)}, {b.name} by {', '.join(others)}"
            return f"{both} by {source}, but another model answered: {models}"
    return ""


def _served(side: Side, measure: str) -> Mapping[str, int]:
    """Return the number of judgements by model, for models that answered but were not requested."""
    identity = side.report.judge.identity
    asked = {part for name in models_in(identity) for part in (name, name.partition(":")[2])}
    models = side.report[measure, side.system].basis.models
    return {model: n for model, n in models.items() if model and model not in asked}


def _differing(row: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Return the keys whose values differ between two mappings."""
    return sorted(key for key in {*row, *other} if row.get(key) != other.get(key))
