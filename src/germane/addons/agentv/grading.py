"""Grade one case by the code-judge protocol, so that other eval runners can use germane's measures.

The case is the JSON document that such a runner sends to its scripts (AgentV 2 or 4), or one sample as a JSON
object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import httpx2
from pydantic import PlainValidator

from germane.clean import fold
from germane.cli.output import print_document, say
from germane.encoding import replace_surrogates
from germane.errors import AnswerError, InputError, JudgeError, SourceLocation
from germane.evalfiles.model import Flag, WholeNumber, YamlModel, plain_value, read_model
from germane.evaluation.evaluate import evaluate
from germane.evaluation.session import open_ledger
from germane.evaluation.spec import Spec, ledger_address, pick_judge
from germane.graders import MeasureGrader, measure_named
from germane.judges import Judge, LLMJudge
from germane.judges.client.transport import Secrets, prompt_of
from germane.judges.judge import GaveUp
from germane.ledger.store import Ledger
from germane.measures import Measure, Outcome
from germane.places.lists import Settings
from germane.samples import SPELLINGS, Notices, RowReader, Warn, find_contexts, only_contexts
from germane.samples.strictjson import JsonFault, parse_strict_json
from germane.types import FrozenDict, Json, Sample
from germane.yamltext import node_of

_IN_FLIGHT, _SECONDS = 4, 120.0


def _proxy_judge(url: str, token: str) -> LLMJudge:
    """Return the judge behind an eval runner's proxy at `url`.

    Its answers are not stored for later runs, because the model behind the proxy is unknown.
    """
    judge = LLMJudge(_Runner(url, token), concurrency=_IN_FLIGHT)
    judge.name, judge.kept, judge.stored = "proxy", True, False
    judge.identity = FrozenDict({"judge": "proxy", "url": url})
    return judge


class _Runner:
    """A chat model that sends its prompts to an eval runner's proxy at `url`, with a bearer token."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url.rstrip('/')}/invoke"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._secrets = Secrets(self._headers, url=url)

    async def ainvoke(self, messages: Sequence[tuple[str, str]]) -> str:
        """Send (role, text) messages to the proxy, and return the text of the answer."""
        system = "\n\n".join(text for role, text in messages if role == "system")
        question = prompt_of([turn for turn in messages if turn[0] != "system"])
        body = {"question": question, "systemPrompt": system}
        async with httpx2.AsyncClient(headers=self._headers, timeout=_SECONDS, trust_env=False) as client:
            response = await client.post(self._url, json=body)
        if response.status_code != httpx2.codes.OK:
            why = f"the runner's judge proxy: status {response.status_code}: {self._secrets.mask_text(response.text)[:300]}"
            raise GaveUp(why)
        result = json.loads(self._secrets.mask(response.content))
        if not isinstance(result, dict) or not isinstance(result.get("rawText"), str):
            raise AnswerError('the response of the runner\'s judge proxy has no string "rawText"')
        return str(result["rawText"])


class GradeOptions(YamlModel):
    """The options of a measure that a document may contain under `config`, in any spelling."""

    what = "config"
    any_key = True  # the options are a script's config, which may contain any other keys
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
"""Options that may also be at the top level of the document, as in AgentV's design note."""
_PROTOCOL = {
    "input_messages", "expected_outcome", "criteria", "reference_answer", "candidate_answer", "output_messages",
}  # fmt: skip
"""Keys of the code-judge protocol; a document without `query` that has one of them is not a sample."""


def _read(
    document: Mapping[str, Json], given: Mapping[str, Json], warn: Warn | None = None
) -> tuple[Sample, str, GradeOptions]:
    """Return the sample in a document, a note if its contexts came from splitting a text, and the options.

    The options are in the `config` of `given` or at its top level.
    """
    names = {fold(spelt): name for spelt, name in GradeOptions.spellings().items()}
    known = {key: name for key in given if (name := names.get(fold(key))) in _ON_TOP}
    found: dict[str, Json] = {name: given[key] for key, name in known.items()}
    if isinstance(config := given.get("config"), Mapping):
        found |= {names.get(fold(key)) or key: value for key, value in config.items()}
    options = read_model(GradeOptions, node_of(found, SourceLocation("config")), warn=warn)
    row = dict(document) if "query" in document or _PROTOCOL.isdisjoint(document) else _row(document)
    row |= {} if options.contexts is None else {"contexts": options.contexts}
    sample = RowReader().read(replace_surrogates(row), 1, lambda _: SourceLocation("<stdin>"))
    return *find_contexts(sample, contexts_from=options.contexts_from), options


def document_sample(document: Mapping[str, Json], options: Mapping[str, Json]) -> Sample:
    """Return the sample in `document`: what AgentV sends to a code judge, or a sample as a JSON object."""
    return _read(document, {"config": options})[0]


def _row(document: Mapping[str, Json]) -> dict[str, Json]:
    """Convert a code-judge document to a row from which a sample can be read."""
    output, reference = document.get("output"), _text(document, "reference_answer", "expected_output")
    turns = document.get("input_messages") or document.get("input")
    turns = turns if isinstance(turns, list | tuple) else ()
    asked = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
    fields: dict[str, Json] = {
        # AgentV sends the last expected message, whatever it holds
        "reference": "" if only_contexts(reference) else reference,
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
    """Return the first non-empty string in the document under one of these names, or ""."""
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
) -> dict[str, Json]:
    """Grade a sample and return its score, hits, misses and reasoning in the form of a code judge's output.

    The judge's answers are stored in `ledger`, if given. Raises InputError if the sample lacks a field or a
    judge is needed but not given, and JudgeError if judging fails.
    """
    grader = MeasureGrader(measure=grader) if isinstance(grader, Measure) else grader
    how = {name: getattr(grader.settings, name) for name in ("against", "scale", "rubric")}
    report = evaluate([sample], [grader], judge=judge, ledger=ledger, progress=False, **how)
    (score,) = report.scores()
    if lacking := report.manifest.get("over"):
        raise JudgeError(lacking)
    if score.status == "skipped":
        fix = "send the fields that it needs (`germane measures` lists them)"
        raise InputError(f"{grader.label} cannot be computed: {score.why}", fix=fix)
    if score.value is None:
        raise JudgeError(f"{grader.label}: {score.why}")
    explained = report.explain(score.sample, score.measure, system=score.system, trial=score.trial)
    outcome = Outcome(score.value, score.status, score.why, score.bounds)
    graded = grader.result(sample, outcome, explained)
    result = replace(graded, verdict=graded.verdict or grader.verdict(score.value)).as_json()
    details = {**(result.get("details") or {}), "measure": str(grader.measure), "verdict": result["verdict"]}
    details |= {"note": score.why} if score.why else {}
    assertions = [{**row, "evidence": row.get("evidence", "")} for row in result["assertions"]]
    return {**result, "assertions": assertions, "details": details}


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
    """Grade one case: read a code-judge document or a sample from stdin, and print its score, hits, misses and reasoning.

    The measure's options are read from the document's `config`. Exit code: 0 if there is a score, 3 if the
    judge failed, 2 if the input is invalid. With 2, nothing is printed on stdout.
    """
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("stdin is not UTF-8", fix="send one JSON document in UTF-8") from None
    try:
        document = parse_strict_json(text)
    except JsonFault as fault:
        fault.problem = f"stdin is not one JSON document: {fault.problem}"
        raise fault.error("-", text) from None
    if not isinstance(document, dict):
        fix = 'send {"question": ..., "candidate_answer": ...}'
        raise InputError("stdin must hold one JSON object", fix=fix)
    sample, note, options = _read(document, document, Notices(lambda notice: say(f"warning: {notice}")))
    chosen = measure_named(measure)
    if chosen.definition.family == "graded":
        fix = "name a measure; germane measures lists them"
        raise InputError(f"{chosen} is a grader of eval files, not a measure", fix=fix)
    if sample.contexts is None and sample.calls is None and "contexts" in chosen.definition.needs:
        fix = "send contexts, or an answer that contains them"
        raise InputError(f"{chosen}: no contexts found in the answer", fix=fix)
    proxy = os.environ.get("AGENTV_TARGET_PROXY_URL")
    who = pick_judge(Spec.of(judge=judge, base_url=base_url).in_project().in_files({"judge": options.judge}))
    if who is None and proxy:
        who = _proxy_judge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    store = open_ledger(None if no_cache else ledger_address(ledger))
    expected, settings = options.expected_relevant_count, Settings.of(against, scale, None)
    grader = MeasureGrader(
        measure=chosen, strict=options.strict, expected_relevant_count=expected, settings=settings
    )
    try:
        result = grade(grader, sample, judge=who, ledger=store)
    except JudgeError as error:
        say(f"germane: {error}")
        return 3
    if note:
        say(f"note: {note}")
        result["details"] = {**result["details"], "contexts_from": note}
    print_document(result)
    return 0
