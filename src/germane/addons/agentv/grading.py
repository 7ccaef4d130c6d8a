"""Grade one case by the code-judge protocol, so that other eval runners can use germane's measures.

The document is what such a runner sends its scripts (either generation), or one of our own sample lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainValidator

from germane.addons.agentv.proxy import proxy_judge
from germane.clean import fold
from germane.cli import print_document, say
from germane.encoding import replace_surrogates
from germane.errors import InputError, JudgeError, SourceLocation
from germane.evalfiles import Case
from germane.evaluation import run_coroutine
from germane.evaluation.choice import (
    judged_by,
    ledger_address,
    needs_judge,
    no_judge,
    open_ledger,
    pick_judge,
)
from germane.evaluation.evaluate import report_on
from germane.evaluation.spec import Spec
from germane.graders import MeasureGrader, measure_named, scored
from germane.judges import Judge
from germane.ledger.store import Ledger
from germane.measures import Measure, Outcome
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.samples import SPELLINGS, Notices, RowReader, Warn, find_contexts, only_contexts
from germane.samples.files import JsonFault, parse_strict_json
from germane.types import Json, Sample
from germane.yamltext import Flag, WholeNumber, YamlModel, node_of, plain_value, read_model


class GradeOptions(YamlModel):
    """The options of a measure that the `config` of a document may hold, in any spelling."""

    what = "config"
    any_key = True  # the options are a script's config, in which anything may stand
    aliases: ClassVar = {
        "strict": ("strict_mode",),
        "contexts": ("retrieval_context", "retrieved_context", "retrieved_contexts"),
    }

    strict: Flag = False
    expected_relevant_count: WholeNumber | None = None
    contexts: Annotated[Any, PlainValidator(plain_value)] = None
    contexts_from: Literal["auto", "text"] = "auto"
    judge: str | None = None


_ON_TOP = {"strict", "expected_relevant_count"}
"""Options that may also stand at the top level of the document, as in the input schema of AgentV's design note."""
_PROTOCOL = {
    "input_messages", "expected_outcome", "criteria", "reference_answer", "candidate_answer", "output_messages",
}  # fmt: skip
"""Keys by which a document without a query is known as one of the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The output of `germane grade`: the result, or why the judge failed."""

    result: dict[str, Json] | None
    error: str | None = None


def options_of(document: Mapping[str, Json], warn: Warn | None = None) -> GradeOptions:
    """Return the options in the document's `config`, or beside it; `warn` gets a Notice for each unknown one.

    InputError for an invalid value.
    """
    names = {fold(spelt): name for spelt, name in GradeOptions.spellings().items()}
    result: dict[str, Json] = {
        name: document[key] for key in document if (name := names.get(fold(key))) in _ON_TOP
    }
    config = document.get("config")
    for key, value in config.items() if isinstance(config, Mapping) else ():
        result[names.get(fold(key)) or key] = value
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
        options = options_of({"config": options})
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


def grade(
    grader: Measure | MeasureGrader,
    sample: Sample,
    *,
    judge: Judge | None = None,
    ledger: Ledger | None = None,
) -> Graded:
    """Grade one sample. InputError if it lacks what the measure needs."""
    grader = MeasureGrader(measure=grader) if isinstance(grader, Measure) else grader
    job = Job(sample=sample, graders=(scored(grader),), case=Case(sample=sample))
    if needs_judge(job.graders) and judge is None:
        raise no_judge([grader.label])
    settings = grader.settings.with_judge(judged_by(judge))
    try:
        report = run_coroutine(report_on([job], settings, judge, ledger, spec=Spec()))
    except JudgeError as failure:
        return Graded(result=None, error=str(failure))
    (score,) = report.scores()
    if lacking := report.manifest.get("over"):
        return Graded(result=None, error=lacking)
    if score.status == "skipped":
        fix = "send what it needs, see `germane measures`"
        raise InputError(f"{grader.label} cannot be computed: {score.why}", fix=fix)
    if score.value is None:
        return Graded(result=None, error=f"{grader.label}: {score.why}")
    explained = report.explain(score.sample, score.measure, system=score.system, trial=score.trial)
    outcome = Outcome(score.value, score.status, score.why, score.bounds)
    graded = grader.result(sample, outcome, explained)
    result = replace(graded, verdict=graded.verdict or grader.verdict(score.value)).as_json()
    details = {**(result.get("details") or {}), "measure": str(grader.measure), "verdict": result["verdict"]}
    details |= {"note": score.why} if score.why else {}
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
    no_cache: bool,
) -> int:
    """Grade one case: a code-judge document or a sample line on stdin, its score, hits, misses and reasoning on stdout.

    Options of the measure stand in the document's `config`. Exit code 0 whenever there is a score, 3 when the judge failed, 2 on
    unusable input (nothing on stdout then).
    """
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
    options = options_of(whole, Notices(lambda notice: say(f"warning: {notice}")))
    chosen, notes = measure_named(measure, lenient=True), list[str]()
    sample = document_sample(document, options, notes.append)
    if sample.contexts is None and sample.calls is None and "contexts" in chosen.definition.needs:
        fix = "send contexts, or an answer that holds them"
        raise InputError(f"{chosen}: no contexts found in the answer", fix=fix)
    proxy = os.environ.get("AGENTV_TARGET_PROXY_URL")
    who = pick_judge(Spec.of(judge=judge, base_url=base_url).in_project().in_files({"judge": options.judge}))
    if who is None and proxy:
        who = proxy_judge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    store = open_ledger(None if no_cache else ledger_address(ledger))
    grader = MeasureGrader(
        measure=chosen,
        strict=options.strict,
        expected_relevant_count=options.expected_relevant_count,
        settings=Settings.of(against, scale, None),
    )
    graded = grade(grader, sample, judge=who, ledger=store)
    if graded.result is None:
        say(f"germane: {graded.error}")
        return 3
    for note in notes:
        say(f"note: {note}")
        graded.result["details"] = {**graded.result["details"], "contexts_from": note}
    print_document(graded.result)
    return 0
