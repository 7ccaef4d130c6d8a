"""One case in, one graded result out: the code-judge protocol, so that another eval runner can use our measures.

The document is what such a runner sends its scripts (either generation), or one of our own sample lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import structs
from pydantic import PlainValidator

from germane.clean import fold
from germane.encoding import replace_surrogates
from germane.errors import InputError, JudgeError, SourceLocation
from germane.evalfiles import Case
from germane.evaluation import run_coroutine
from germane.evaluation.choice import check_answers, judged_by, needs_judge, no_judge
from germane.evaluation.evaluate import report_on
from germane.evaluation.spec import Spec
from germane.judges import Judge
from germane.measures import Measure, Outcome
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.reports import results_of
from germane.samples import SPELLINGS, RowReader, Warn, find_contexts, only_contexts
from germane.types import Json, Message, Sample, freeze
from germane.yamltext import Flag, Share, WholeNumber, YamlModel, node_of, plain_value, read_model

if TYPE_CHECKING:
    from germane.graders import CaseGrader
    from germane.ledger.store import Ledger


class GradeOptions(YamlModel):
    """The options of a measure that the `config` of a document may hold, in any spelling."""

    what = "config"
    any_key = True  # the options are a script's config, in which anything may stand
    aliases: ClassVar = {
        "strict": ("strict_mode",),
        "threshold": ("min_score",),
        "contexts": ("retrieval_context", "retrieved_context", "retrieved_contexts"),
    }

    strict: Flag = False
    expected_relevant_count: WholeNumber | None = None
    threshold: Share | None = None
    contexts: Annotated[Any, PlainValidator(plain_value)] = None
    contexts_from: Literal["auto", "text"] = "auto"
    against: str | None = None
    scale: str | None = None
    rubric: str | None = None
    judge: str | None = None


_ON_TOP = {"strict", "expected_relevant_count"}
"""Options that may also stand at the top level of the document, as in the input schema of AgentV's design note."""
_OF_GRADERS = {"contexts", "contexts_from", "judge"}
"""Options that hold for graders that are no measures; what else is in their `config` is their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The output of `germane grade`: the result, or why the judge failed."""

    result: dict[str, Json] | None
    error: str | None = None


def options_of(
    document: Mapping[str, Json], options: Mapping[str, Json], warn: Warn | None = None
) -> GradeOptions:
    """The options that are `given`, or stand in the document's `config` or beside it.

    `warn`, for a measure, gets a Notice for each that is not known. InputError for one that cannot be as it is.
    """
    config = document.get("config")
    names = {fold(spelt): name for spelt, name in GradeOptions.spellings().items()}
    result = {name: document[key] for key in document if (name := names.get(fold(key))) in _ON_TOP}
    for key, value in {**(config if isinstance(config, Mapping) else {}), **options}.items():
        name = names.get(fold(key), key)
        if warn is not None or name in _OF_GRADERS:
            result[name] = value
    return read_model(GradeOptions, node_of(result, SourceLocation("config")), warn=warn)


def document_sample(
    document: Json, options: GradeOptions | Mapping[str, Json], note: Callable[[str], None] | None = None
) -> Sample:
    """The sample in a code-judge document or a sample line; InputError where it is neither.

    `note` is told where its contexts were not found as a list but as blocks of text.
    """
    if not isinstance(document, Mapping):
        raise InputError(
            "stdin must hold one JSON object", fix='send {"question": ..., "candidate_answer": ...}'
        )
    if not isinstance(options, GradeOptions):
        options = options_of({}, options)
    of_protocol = "query" not in document and not _PROTOCOL.isdisjoint(document)
    row = _row(document) if of_protocol else dict(document)
    if options.contexts is not None:
        row["contexts"] = options.contexts
    sample = _read(row)
    if sample.contexts is not None or sample.calls is not None:
        return sample
    contexts = find_contexts(sample, contexts_from=options.contexts_from)
    if contexts.note and note is not None:
        note(contexts.note)
    return contexts.add_to(sample)


def _read(row: Mapping[str, Json]) -> Sample:
    return RowReader().read(replace_surrogates(dict(row)), 1, lambda _: SourceLocation("<stdin>"))


_PROTOCOL = {
    "candidate_answer",
    "expected_outcome",
    "output_messages",
    "input_messages",
    "criteria",
    "reference_answer",
}


def _row(document: Mapping[str, Json]) -> dict[str, Json]:
    row: dict[str, Json] = {"id": str(document.get("eval_id") or document.get("id") or "case")}
    row["query"] = _text(document.get("question")) or _text(document.get("input")) or _last_user(document)
    reference = _text(document.get("reference_answer")) or _text(document.get("expected_output"))
    criterion = _text(document.get("expected_outcome")) or _text(document.get("criteria"))
    response = (
        _text(document.get("candidate_answer"))
        or _text(document.get("answer"))
        or _text(document.get("output"))
    )
    messages = document.get("output_messages") or (
        document.get("output") if isinstance(document.get("output"), list) else None
    )
    if only_contexts(reference):  # AgentV sends the last expected message as the reference, whatever it holds
        reference = ""
    texts = {"reference": reference, "criterion": criterion, "response": response}
    row |= {name: value for name, value in texts.items() if value}
    if messages:
        row["messages"] = messages
    for name, value in document.items():
        if value is not None and (field := SPELLINGS.get(name)) in {"contexts", "qrels"}:
            row[field] = value
    return row


def _text(value: Json) -> str:
    """Text as it is; of a list of messages the content of the last."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and isinstance(value[-1], Mapping):
        return _text(value[-1].get("content"))
    return ""


def _last_user(document: Mapping[str, Json]) -> str:
    turns = document.get("input_messages") or document.get("input") or ()
    asked = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
    return _text(asked[-1].get("content")) if asked else ""


_RUNS_CODE = {"code_judge", "composite", "assert_set"}
"""Graders that may start programs: which ones is said on the command line, never by what comes on stdin."""
_MEASURED = ("trace_summary", "token_usage", "cost_usd", "duration_ms", "start_time", "end_time")


def grader_named(
    name: str, document: Mapping[str, Json], options: Mapping[str, Json], warn: Warn | None = None
) -> CaseGrader | None:
    """The grader of that type, with the options given and those in the document's `config`; None for a measure."""
    from germane.graders import Where, grader_of, is_grader

    if not is_grader(name):
        return None
    config = document.get("config")
    values = {} if not isinstance(config, Mapping) or is_grader(name) in _RUNS_CODE else config
    return grader_of({**values, **options, "type": name}, Where(folder=Path.cwd(), warn=warn))


def document_case(document: Mapping[str, Json], sample: Sample) -> Case:
    """The whole case in a code-judge document: what graders read that are no measures."""
    measured = {name: document[name] for name in _MEASURED if document.get(name) is not None}
    metadata = document.get("metadata")
    values = {**sample.metadata, **(metadata if isinstance(metadata, Mapping) else {}), **measured}
    expected = document.get("expected_messages") or document.get("expected_output")
    asked = document.get("input_messages") or document.get("input")
    return Case(
        sample=structs.replace(sample, metadata=freeze(values)),
        question=sample.query,
        expected_outcome=_text(document.get("expected_outcome")) or _text(document.get("criteria")),
        reference_answer=_text(document.get("reference_answer")),
        input_messages=_messages(asked),
        expected_messages=_messages(expected),
        metadata=freeze(metadata if isinstance(metadata, Mapping) else {}),
    )


def _messages(value: Json) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        return ()
    return _read({"query": "-", "messages": value}).messages


def grade(
    grader: Measure | CaseGrader,
    case: Sample | Case,
    *,
    judge: Judge | None = None,
    ledger: Ledger | None = None,
    replay: str = "",
) -> Graded:
    """Grade one case; with `replay` (the ledger's name) nobody is asked. InputError where it lacks something that the grader needs."""
    from germane.graders import MeasureGrader, scored

    grader = MeasureGrader(measure=grader) if isinstance(grader, Measure) else grader
    measure = grader if isinstance(grader, MeasureGrader) else None
    whole = case if isinstance(case, Case) else Case(sample=case)
    job = Job(sample=whole.sample, graders=(scored(grader),), case=whole)
    if needs_judge(job.graders) and judge is None:
        raise no_judge([grader.label])
    check_answers(judge, job.graders)
    settings = (Settings() if measure is None else measure.settings).with_judge(judged_by(judge))
    try:
        report = run_coroutine(report_on([job], settings, judge, ledger, spec=Spec.of(replay=replay or None)))
    except JudgeError as failure:
        return Graded(result=None, error=str(failure))
    (score,) = report.scores()
    if lacking := report.manifest.get("over"):
        return Graded(result=None, error=lacking)
    if score.status == "skipped":
        fix = "send what it needs" + ("" if measure is None else ", see `germane measures`")
        raise InputError(f"{grader.label} cannot be computed: {score.why}", fix=fix)
    if score.value is None:
        return Graded(result=None, error=f"{grader.label}: {score.why}")
    if measure is None:
        (result,) = map(dict, results_of(report).values())
        details = {}
    else:
        explained = report.explain(score.sample, score.measure, system=score.system, trial=score.trial)
        outcome = Outcome(score.value, score.status, score.why, score.bounds)
        graded = measure.result(whole.sample, outcome, explained)
        result = replace(graded, verdict=graded.verdict or measure.verdict(score.value)).as_json()
        details = {"measure": str(measure.measure)} | ({"note": score.why} if score.why else {})
    details = {**(result.get("details") or {}), **details, "verdict": result["verdict"]}
    assertions = [{**row, "evidence": row.get("evidence", "")} for row in result["assertions"]]
    return Graded(result={**result, "assertions": assertions, "details": details})
