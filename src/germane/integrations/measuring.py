"""One case through the ordinary evaluation: rows in the shapes of other tools, scores with their explanation out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from germane.errors import InputError
from germane.evaluation.choice import pick_judge
from germane.evaluation.evaluate import evaluate
from germane.evaluation.options import environment
from germane.judges.judge import Judge
from germane.measures.explaining import Explanation
from germane.samples.reading import samples_from
from germane.types import Json, Judgement, Sample, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One score and what it rests on; `judgements` are those of all measures of the call."""

    sample: Sample
    score: Score
    explanation: Explanation
    judgements: tuple[Judgement, ...]

    @property
    def reason(self) -> str:
        """The explanation on one line: what was found, then every miss."""
        return "; ".join([self.explanation.reasoning, *self.explanation.misses])

    @property
    def verdicts(self) -> list[bool]:
        """What the score counts: each claim of a recall, each statement of a relevancy, else each ranked context.

        In their order, leaving out what was not answered.
        """
        if self.score.type == "context_recall":
            return [bool(places) for places in self.support]
        if self.score.type == "context_relevancy":
            return [one["relevant"] for answer in self._answers("statements") for one in answer["statements"]]
        checks = (check["relevant"] for check in self.explanation.relevance_checks)
        return [relevant for relevant in checks if relevant is not None]

    @property
    def support(self) -> list[tuple[int, ...]]:
        """For each claim that was judged, the contexts that support it, by their number from 1."""
        items = [item for answer in self._answers("support") for item in answer["claims"]]
        return [tuple(item["contexts"]) for item in sorted(items, key=lambda item: int(item["claim"]))]

    def _answers(self, kind: str) -> Iterator[Json]:
        return (one.answer for one in self.judgements if one.kind == kind and one.error is None)


def measure_case(
    row: Mapping[str, Json], measures: Sequence[str], *, judge: Judge | str | None, against: str = "auto"
) -> tuple[Measured, ...]:
    """The measures of one case, from a row with the usual names of its fields (`query`, `contexts`, `reference`)."""
    (sample,) = samples_from([{name: value for name, value in row.items() if value is not None}])
    report = evaluate([sample], measures, judge=judge_of(judge), against=against)
    judgements = tuple(report.judgements())
    return tuple(
        Measured(
            sample=sample,
            score=score,
            explanation=report.explain(sample.id, score.measure, system=sample.system, trial=sample.trial),
            judgements=judgements,
        )
        for score in report.scores()
    )


def judge_of(model: Judge | str | None) -> Judge | str | None:
    """The judge of a call: as given, a bare model name (`gpt-4o-mini`) as OpenAI's, None = GERMANE_JUDGE or the config."""
    if model is None:
        return pick_judge(_with_provider(environment("judge") or "") or None, needed=False)
    return _with_provider(model) if isinstance(model, str) else model


def _with_provider(names: str) -> str:
    """The names of judges, those that can only be models of OpenAI's with their provider."""
    return " ".join(f"openai:{name}" if _BARE.fullmatch(name) else name for name in names.split())


_BARE = re.compile(r"[\w.]+-[\w.-]+|gpt[\w.]+|o\d")


def required(value: Json, name: str, tool: str) -> Json:
    """A field that a call cannot do without; InputError where it was not given."""
    if value is None:
        raise InputError(f"{tool} needs {name}", fix=f"give {name}=...")
    return value
