"""`germane grade MEASURE`: one case on stdin, one graded result on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from germane.clean import clean_lines
from germane.cli import print_document, say
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.types import Json


def grade(
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
    """Grade one case: a code-judge document or a sample line on stdin, its score, hits, misses and reasoning on stdout.

    Options of a grader stand in the document's `config`, or are given here; which program a code_judge runs only here.
    Exit code 0 whenever there is a score, 3 when the judge failed, 2 on unusable input (nothing on stdout then).
    """
    from germane.addons.agentv import grading
    from germane.evaluation.choice import ledger_address, open_ledger, pick_judge
    from germane.evaluation.spec import Spec
    from germane.graders import MeasureGrader, measure_named
    from germane.ledger.address import password_apart
    from germane.places.settings import Settings
    from germane.samples import Notices
    from germane.samples.files import JsonFault, parse_strict_json

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
    grader = grading.grader_named(measure, whole, values, warn)
    options = grading.options_of(whole, values, None if grader else warn)
    chosen = None if grader else measure_named(measure)
    notes = list[str]()
    sample = grading.document_sample(document, options, notes.append)
    unknown = sample.contexts is None and sample.calls is None
    if chosen is not None and unknown and "contexts" in chosen.definition.needs:
        fix = "send contexts, or an answer that holds them"
        raise InputError(f"{chosen}: no contexts found in the answer", fix=fix)
    proxy = os.environ.get("AGENTV_TARGET_PROXY_URL")
    who = pick_judge(Spec.of(judge=judge, base_url=base_url).in_project().in_files({"judge": options.judge}))
    if who is None and proxy:
        from germane.addons.agentv.proxy import ProxyJudge

        who = ProxyJudge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
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
    case = sample if chosen else grading.document_case(document, sample)
    result = grading.grade(grader, case, judge=who, ledger=store, replay=replay or "")
    if result.result is None:
        print(f"germane: {clean_lines(str(result.error))}", file=sys.stderr)
        return 3
    for note in notes:
        say(f"note: {note}")
        result.result["details"] = {**result.result["details"], "contexts_from": note}
    print_document(result.result)
    return 0
