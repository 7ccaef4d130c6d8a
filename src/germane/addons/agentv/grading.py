"""Grade one case by the code-judge protocol, so that other eval runners can use germane's measures.

The document is what such a runner sends its scripts (either generation), or one of our own sample lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import structs
from pydantic import PlainValidator

from germane.addons.agentv.proxy import proxy_judge
from germane.clean import fold
from germane.cli import print_document, say
from germane.encoding import replace_surrogates
from germane.errors import InputError, JudgeError, SourceLocation
from germane.evalfiles import Case
from germane.evaluation import run_coroutine
from germane.evaluation.choice import (
    check_answers,
    judged_by,
    ledger_address,
    needs_judge,
    no_judge,
    open_ledger,
    pick_judge,
)
from germane.evaluation.evaluate import report_on
from germane.evaluation.spec import Spec
from germane.graders import CaseGrader, MeasureGrader, Where, grader_of, is_grader, measure_named, scored
from germane.judges import Judge
from germane.ledger.address import password_apart
from germane.ledger.store import Ledger
from germane.measures import Measure, Outcome
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.reports.explain import results_of
from germane.samples import SPELLINGS, Notices, RowReader, Warn, find_contexts, only_contexts
from germane.samples.files import JsonFault, parse_strict_json
from germane.types import Json, Message, Sample, freeze
from germane.yamltext import Flag, Share, WholeNumber, YamlModel, node_of, plain_value, read_model


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
_RUNS_CODE = {"code_judge", "composite", "assert_set"}
"""Graders that may start programs: which ones is said on the command line, never by what comes on stdin."""
_CASE = {"input_messages", "expected_outcome", "criteria", "reference_answer"}
_PROTOCOL = {*_CASE, "candidate_answer", "output_messages"}
"""Keys by which a document without a query is known as one of the protocol."""
_MEASURED = ("trace_summary", "token_usage", "cost_usd", "duration_ms", "start_time", "end_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The output of `germane grade`: the result, or why the judge failed."""

    result: dict[str, Json] | None
    error: str | None = None


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def options_of(
    document: Mapping[str, Json], options: Mapping[str, Json], warn: Warn | None = None
) -> GradeOptions:
    """Return the options given as flags, in the document's `config`, or beside it.

    `warn`, for a measure, gets a Notice for each that is not known. InputError for one that cannot be as it is.
    """
    names = {fold(spelt): name for spelt, name in GradeOptions.spellings().items()}
    result = {name: document[key] for key in document if (name := names.get(fold(key))) in _ON_TOP}
    for key, value in {**_mapping(document.get("config")), **options}.items():
        name = names.get(fold(key), key)
        if warn is not None or name in _OF_GRADERS:
            result[name] = value
    return read_model(GradeOptions, node_of(result, SourceLocation("config")), warn=warn)


def document_sample(
    document: Json, options: GradeOptions | Mapping[str, Json], note: Callable[[str], None] | None = None
) -> Sample:
    """Return the sample in a code-judge document or a sample line; InputError where it is neither.

    `note` is told where its contexts were not found as a list but as blocks of text.
    """
    if not isinstance(document, Mapping):
        fix = 'send {"question": ..., "candidate_answer": ...}'
        raise InputError("stdin must hold one JSON object", fix=fix)
    if not isinstance(options, GradeOptions):
        options = options_of({}, options)
    row = dict(document) if "query" in document or _PROTOCOL.isdisjoint(document) else _row(document)
    sample = _read(row if options.contexts is None else {**row, "contexts": options.contexts})
    sample, remark = find_contexts(sample, contexts_from=options.contexts_from)
    if remark and note is not None:
        note(remark)
    return sample


def _read(row: Mapping[str, Json]) -> Sample:
    return RowReader().read(replace_surrogates(dict(row)), 1, lambda _: SourceLocation("<stdin>"))


def _row(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return a document of the protocol as a row of a sample."""
    output, reference = document.get("output"), _text(document, "reference_answer", "expected_output")
    turns = document.get("input_messages") or document.get("input") or ()
    asked = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
    fields: dict[str, Json] = {
        "reference": ""
        if only_contexts(reference)
        else reference,  # AgentV sends the last expected message, whatever it holds
        "criterion": _text(document, "expected_outcome", "criteria"),
        "response": _text(document, "candidate_answer", "answer", "output"),
        "messages": document.get("output_messages") or (output if isinstance(output, list) else None),
    }
    given = {SPELLINGS.get(name): value for name, value in document.items() if value is not None}
    return {
        "id": str(document.get("eval_id") or document.get("id") or "case"),
        "query": _text(document, "question", "input") or _text({"": asked}, ""),
        **{name: value for name, value in fields.items() if value},
        **{name: given[name] for name in ("contexts", "qrels") if name in given},
    }


def _text(document: Mapping[str, Json], *names: str) -> str:
    """Return the first text under these names; of a list of messages it is the content of the last."""
    for name in names:
        value = document.get(name)
        if isinstance(value, list | tuple) and value and isinstance(value[-1], Mapping):
            value = _text(value[-1], "content")
        if isinstance(value, str) and value:
            return value
    return ""


def grader_named(
    name: str, document: Mapping[str, Json], options: Mapping[str, Json], warn: Warn | None = None
) -> CaseGrader | None:
    """Return the grader of that type, with the options given and those in the document's `config`; None for a measure."""
    if not is_grader(name):
        return None
    values = {} if is_grader(name) in _RUNS_CODE else _mapping(document.get("config"))
    return grader_of({**values, **options, "type": name}, Where(folder=Path.cwd(), warn=warn))


def document_case(document: Mapping[str, Json], sample: Sample) -> Case:
    """Return the case in a code-judge document, for graders that are not measures."""
    measured = {name: document[name] for name in _MEASURED if document.get(name) is not None}
    metadata = _mapping(document.get("metadata"))
    return Case(
        sample=structs.replace(sample, metadata=freeze({**sample.metadata, **metadata, **measured})),
        question=sample.query,
        expected_outcome=_text(document, "expected_outcome", "criteria"),
        reference_answer=_text(document, "reference_answer"),
        input_messages=_messages(document.get("input_messages") or document.get("input")),
        expected_messages=_messages(document.get("expected_messages") or document.get("expected_output")),
        metadata=freeze(metadata),
    )


def _messages(value: Json) -> tuple[Message, ...]:
    return _read({"query": "-", "messages": value}).messages if isinstance(value, list) and value else ()


def grade(
    grader: Measure | CaseGrader,
    case: Sample | Case,
    *,
    judge: Judge | None = None,
    ledger: Ledger | None = None,
    replay: str = "",
) -> Graded:
    """Grade one case; with `replay` (the ledger's name) no calls are made. InputError where it lacks what the grader needs."""
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
    details: dict[str, Json] = {}
    if measure is None:
        (result,) = map(dict, results_of(report).values())
    else:
        explained = report.explain(score.sample, score.measure, system=score.system, trial=score.trial)
        outcome = Outcome(score.value, score.status, score.why, score.bounds)
        graded = measure.result(whole.sample, outcome, explained)
        result = replace(graded, verdict=graded.verdict or measure.verdict(score.value)).as_json()
        details = {"measure": str(measure.measure)} | ({"note": score.why} if score.why else {})
    details = {**(result.get("details") or {}), **details, "verdict": result["verdict"]}
    assertions = [{**row, "evidence": row.get("evidence", "")} for row in result["assertions"]]
    return Graded(result={**result, "assertions": assertions, "details": details})


def grade_stdin(
    measure: str,
    *,
    judge: str | None,
    base_url: str | None,
    against: str | None,
    scale: str | None,
    ledger: str | None,
    replay: str | None,
    option: Sequence[tuple[str, Json]],
    no_cache: bool,
) -> int:
    """Read one case from stdin, grade it and print the result; see `germane grade`."""
    text = ""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
        document = parse_strict_json(text)
    except UnicodeDecodeError:
        raise InputError("stdin is not UTF-8", fix="send one JSON document in UTF-8") from None
    except JsonFault as fault:
        fault.problem = f"stdin is not one JSON document: {fault.problem}"
        raise fault.error("-", text) from None
    whole = document if isinstance(document, dict) else {}
    values = dict(option)
    warn = Notices(lambda notice: say(f"warning: {notice}"))
    grader = grader_named(measure, whole, values, warn)
    options = options_of(whole, values, None if grader else warn)
    chosen = None if grader else measure_named(measure)
    notes = list[str]()
    sample = document_sample(document, options, notes.append)
    unknown = sample.contexts is None and sample.calls is None
    if chosen is not None and unknown and "contexts" in chosen.definition.needs:
        fix = "send contexts, or an answer that holds them"
        raise InputError(f"{chosen}: no contexts found in the answer", fix=fix)
    proxy = os.environ.get("AGENTV_TARGET_PROXY_URL")
    who = pick_judge(Spec.of(judge=judge, base_url=base_url).in_project().in_files({"judge": options.judge}))
    if who is None and proxy:
        who = proxy_judge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    replay = None if replay is None else password_apart(replay)
    store = open_ledger(None if no_cache else ledger_address(ledger), replay)
    if chosen is not None:
        grader = MeasureGrader(
            measure=chosen,
            strict=options.strict,
            expected_relevant_count=options.expected_relevant_count,
            min_score=options.threshold,
            settings=Settings.of(against or options.against, scale or options.scale, options.rubric),
        )
    assert grader is not None
    case = sample if chosen else document_case(document, sample)
    graded = grade(grader, case, judge=who, ledger=store, replay=replay or "")
    if graded.result is None:
        say(f"germane: {graded.error}")
        return 3
    for note in notes:
        say(f"note: {note}")
        graded.result["details"] = {**graded.result["details"], "contexts_from": note}
    print_document(graded.result)
    return 0
