"""One case through the ordinary evaluation: rows in the shapes of other tools, scores with their explanation out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

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
    """One score and what it rests on: `source` is "gold", "human" or the judge; `judgements` are those of the whole call."""

    sample: Sample
    score: Score
    explanation: Explanation
    source: str
    judgements: tuple[Judgement, ...]

    @property
    def problem(self) -> str:
        """Why there is no value, with the status and what the value could be: "" where there is one."""
        if self.score.value is not None:
            return ""
        bounds = self.score.bounds
        could = f" (it is between {bounds[0]:g} and {bounds[1]:g})" if bounds else ""
        return f"{self.score.status}: {self.score.why}{could}"

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
    row: Mapping[str, Json],
    measures: str | Sequence[str],
    *,
    judge: Judge | str | None,
    against: str = "auto",
    ledger: str | Path | None = None,
) -> tuple[Measured, ...]:
    """The measures of one case, from a row with the usual names of its fields (`query`, `contexts`, `reference`)."""
    (sample,) = samples_from([{name: value for name, value in row.items() if value is not None}])
    report = evaluate([sample], measures, judge=judge_of(judge), against=against, ledger=ledger)
    judgements = tuple(report.judgements())
    judges = sorted({one.judge for one in judgements})
    return tuple(
        Measured(
            sample=sample,
            score=score,
            explanation=report.explain(sample.id, score.measure, system=sample.system, trial=sample.trial),
            source=", ".join(judges) if (of := report[score.measure].basis.source) == "judge" else of,
            judgements=judgements,
        )
        for score in report.scores()
    )


def row_of(inputs: Any, output: Any, expected: Any) -> dict[str, Json]:
    """A row of what other tools keep apart: what went in, what came out, what was expected.

    A mapping, or an object with attributes, gives its fields under any name that a data file may have; a text is the query,
    the response and the reference; a list that came out is the contexts, one that was expected the gold ids.
    """
    return {
        **_fields(inputs, text="query"),
        **_fields(output, text="response", sequence="contexts"),
        **_fields(expected, text="reference", sequence="qrels"),
    }


def _fields(value: Any, *, text: str, sequence: str | None = None) -> dict[str, Json]:
    if isinstance(value, str):
        return {text: value}
    if isinstance(value, Sequence) and sequence is None:
        raise InputError(f"the {text} is a list", fix="give a text, or a mapping with the fields of a sample")
    if isinstance(value, Sequence) and sequence is not None:
        return {sequence: list(value)}
    if hasattr(value, "model_dump"):  # a pydantic model
        value = value.model_dump()
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    return {} if value is None else dict(value if isinstance(value, Mapping) else vars(value))


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
