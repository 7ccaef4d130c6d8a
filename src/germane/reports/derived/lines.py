"""Records of the `--json` document: the measures of each system, their order, the results of each search, and the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, convert, field

from germane.clean import clean, counted
from germane.encoding import Line, internal
from germane.reports.summary import MeasureSummary, in_digits, interval_in_words, p_in_words
from germane.statistics.intervals import IntervalEnds, mean_interval
from germane.types import Json, Sample


class SystemLine(Line, kw_only=True):
    """The measures of one system: over all cases, over a `slice`, or over the cases of one eval `file`."""

    system: str
    measures: dict[str, MeasureSummary]
    slice: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


def system_lines(summaries: Iterable[MeasureSummary], **of: str) -> list[SystemLine]:
    """Return one line per system; `of` is the slice or file."""
    measures: dict[str, dict[str, MeasureSummary]] = {}
    for summary in summaries:
        measures.setdefault(summary.system, {})[summary.measure] = summary
    return [SystemLine(system=system, measures=rows, **of) for system, rows in (measures or {"": {}}).items()]


class RankedLine(Line, rename=internal("n")):
    """One system with its rank, and its paired difference from the first over `difference_n` cases; null for the first.

    `mde` is the smallest difference that this number of cases could have shown; a smaller one is not `distinguishable`.
    """

    system: str
    mean: float | None
    interval: IntervalEnds | None
    difference: float | None = None
    difference_interval: IntervalEnds | None = None
    difference_n: int | None = None
    p: float | None = None
    p_holm: float | None = None
    mde: float | None = None
    distinguishable: bool | None = None
    n: int = 0
    """The number of cases that its mean is of."""

    def in_words(self, width: int, n_first: int) -> str:
        """Return the line as printed, the system's name padded to a width; `n_first` is the first system's `n`."""
        text = f"  {clean(self.system) or '-':{width}}  {in_digits(self.mean)} ({interval_in_words(self.interval)})"
        if self.difference_n is None:
            return text
        ends = interval_in_words(self.difference_interval, sign="+")
        text += f"  {in_digits(self.difference, '+')} ({ends})  p {p_in_words(self.p)}"
        text += "" if self.p_holm == self.p else f" (Holm {p_in_words(self.p_holm)})"
        if {self.difference_n} != {self.n, n_first}:
            text += f" over the {counted(self.difference_n, 'query')} of both"
        return text if self.distinguishable else f"{text}  not distinguishable"


class RankingLine(Line):
    """The systems by one measure, the best first."""

    measure: str
    systems: list[RankedLine]

    def __str__(self) -> str:
        width = max(len(clean(line.system) or "-") for line in self.systems)
        lines = (line.in_words(width, self.systems[0].n) for line in self.systems)
        return "\n".join([f"systems by {clean(self.measure)}", *lines])


class SearchLine(Line):
    """The searches number `call` of a system's samples; `samples` made at least this number of searches.

    `first` is how many samples had their first relevant document from it, `recall` the mean share of the gold documents that
    had come by then, over all samples with gold (one that made fewer searches keeps what it had), with its 95% interval.
    `spare` counts those made after all gold had come. The four are null if no gold documents are known. `repeated` counts
    those whose query the same sample had sent before.
    """

    system: str
    call: int
    samples: int
    first: int | None
    recall: float | None
    interval: Annotated[tuple[float, float], Meta(description="the lower one first")] | None
    spare: int | None
    repeated: int


def searches_of(samples: Iterable[Sample]) -> list[SearchLine]:
    """Return the results of each search: a line per system and number of the search."""
    from germane.places import lists  # not at the top: `germane rank` has no searches

    repeats: dict[str, list[list[bool]]] = {}
    recalls: dict[str, list[tuple[str, list[float]]]] = {}
    for sample in samples:
        if sample.error is None and (asked := lists.asked_before(sample)):
            repeats.setdefault(sample.system, []).append([before for _, before in asked])
            if (shares := lists.recall_by_search(sample)) is not None:
                recalls.setdefault(sample.system, []).append((sample.cluster or sample.id, shares))
    return [
        _search_line(system, call, rows, recalls.get(system, ()))
        for system, rows in repeats.items()
        for call in range(1, max(map(len, rows)) + 1)
    ]


def _search_line(
    system: str, call: int, repeats: Sequence[Sequence[bool]], recalls: Sequence[tuple[str, Sequence[float]]]
) -> SearchLine:
    """Return the line of a search number, from the repeats of each sample and its recall after each search."""
    made = [row[call - 1] for row in repeats if len(row) >= call]
    line = SearchLine(system, call, len(made), None, None, None, None, sum(made))
    if recalls:
        before = [0.0 if call == 1 else shares[min(call - 1, len(shares)) - 1] for _, shares in recalls]
        now = [shares[min(call, len(shares)) - 1] for _, shares in recalls]
        interval = mean_interval(now, clusters=[case for case, _ in recalls], value_range=(0.0, 1.0))
        line.recall, line.interval = interval.mean, interval.ends
        line.first = sum(old == 0 < new for old, new in zip(before, now, strict=True))
        line.spare = sum(old == 1 and len(of) >= call for old, (_, of) in zip(before, recalls, strict=True))
    return line


JUDGE_COUNTS = ("calls", "cached", "shared", "requests", "errors")
"""The counts in a judge's entry."""


class Tokens(Line):
    """The tokens that were sent to a judge and received from it."""

    input: int
    output: int


class JudgeLine(Line, rename=internal("identity")):
    """The judge and its cost, over all sessions of the evaluation.

    `calls` are questions asked and paid for, `cached` those that an earlier evaluation had answered, `shared` those that
    this one had asked already; `errors` are questions without an answer, whether or not a request was sent;
    `requests` include those sent again. `estimated`: an endpoint did not report tokens, and the numbers are estimates. `stand_in` is
    the remark on a judge that only stands in for a model.
    """

    source: str | None
    calls: int
    cached: int
    shared: int
    requests: int
    errors: int
    tokens: Tokens
    cost_usd: float | None
    estimated: bool | UnsetType = UNSET
    stand_in: str | UnsetType = UNSET
    identity: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def stored(cls, entry: Mapping[str, Json] | None) -> JudgeLine:
        """Return the record of a manifest's or a document's entry; counts that it lacks are 0. ValidationError if it is damaged."""
        given = entry or {}
        none = {"source": None, "cost_usd": None, "tokens": dict.fromkeys(("input", "output"), 0)}
        counts = dict.fromkeys(JUDGE_COUNTS, 0)
        return convert({**none, **counts, **given, "_identity": given.get("identity") or {}}, cls)

    def __post_init__(self) -> None:
        self.stand_in = self.stand_in or UNSET

    @property
    def spent(self) -> str:
        """The cost of judging in words."""
        share = f" ({self.cached / (self.calls + self.cached):.0%})" if self.cached else ""
        words = [counted(self.calls, "call"), f"{self.cached} cached{share}"]
        if self.shared:
            words.append(f"{self.shared} shared")
        if self.requests or self.tokens.input or self.tokens.output:
            words.append(counted(self.requests, "request"))
            about = "about " if self.estimated else ""
            words.append(f"{about}{self.tokens.input:,} + {self.tokens.output:,} tokens")
            price = "price unknown (--price)" if self.cost_usd is None else f"{about}${self.cost_usd:.4f}"
            words.append(price)
        if self.errors:
            words.append(f"{self.errors} failed")
        return ", ".join(words)
