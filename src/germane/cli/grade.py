"""`germane grade MEASURE`: one case on stdin, one graded result on stdout."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from germane.cli.options import Text, Words
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.evaluation.grade import Graded
    from germane.ledger.store import Ledger


def grade(
    measure: Annotated[
        str,
        typer.Argument(metavar="TYPE", help="context_precision@5, or any grader: field_accuracy, cost, ..."),
    ],
    judge: Annotated[
        Text, typer.Option("--judge", help="labels | lexical | openai:gpt-4o-mini | ...")
    ] = None,
    base_url: Annotated[Text, typer.Option("--base-url", help="An OpenAI-compatible endpoint.")] = None,
    against: Annotated[
        Text, typer.Option("--against", help="auto | query | reference | response | criterion.")
    ] = None,
    scale: Annotated[Text, typer.Option("--scale", help="graded (0-3) | binary.")] = None,
    ledger: Annotated[Text, typer.Option("--ledger", help="Where answers are kept.")] = None,
    replay: Annotated[
        Text,
        typer.Option(
            "--replay", metavar="LEDGER", help="Ask no judge: answers come from this ledger, or an export."
        ),
    ] = None,
    option: Annotated[
        Words,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of the grader; JSON where it is. Repeatable."
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the ledger.")] = False,
) -> None:
    """Grade one case: a code-judge document or a sample line on stdin, {score, hits, misses, reasoning, ...} on stdout.

    Options of a grader stand in the document's `config`, or are given here; which program a code_judge runs only here.
    Exit code 0 whenever there is a score, 3 when the judge failed, 2 on unusable input (nothing on stdout then).
    """
    from germane.cli.printing import say
    from germane.cli.values import parameters
    from germane.evaluation.choice import ledger_place, pick_judge
    from germane.evaluation.grade import (
        check_options,
        document_case,
        document_sample,
        grade_case,
        grader_named,
        options_of,
    )
    from germane.evaluation.grade import grade as graded
    from germane.evaluation.options import JudgeOptions, filled, read_config
    from germane.ledger.replay import open_for_replay
    from germane.ledger.store import open_ledger
    from germane.measures.declaration import named
    from germane.measures.labels import Settings
    from germane.samples.files import Notices

    try:
        document = json.loads(sys.stdin.buffer.read().decode("utf-8-sig"))
    except ValueError as error:
        raise InputError(
            f"stdin is not one JSON document: {error}", fix='send {"question": ..., ...}'
        ) from None
    given = dict(parameters(option, "--option", "threshold=2000"))
    warn = Notices(lambda notice: say(f"warning: {notice}"))
    whole = document if isinstance(document, dict) else {}
    grader = grader_named(measure, whole, given, warn)
    told = warn if grader is None else None
    options = {**options_of(whole, told), **options_of({"config": given}, told)}
    if grader is None:
        check_options(options)
    chosen = named(measure) if grader is None else None
    sample = document_sample(document, options)
    if (
        chosen is not None
        and sample.contexts is None
        and sample.calls is None
        and "contexts" in chosen.definition.needs
    ):
        raise InputError(
            f"{chosen}: no contexts found in the answer", fix="send contexts, or an answer that holds them"
        )
    proxy = os.environ.get("AGENTV_TARGET_PROXY_URL")
    who = pick_judge(
        judge,
        options.get("judge"),
        options=filled(JudgeOptions(base_url=base_url), read_config().values),
        proxy=proxy,
        needed=False,
    )
    if replay is not None:
        store: Ledger | None = open_for_replay(replay)
    else:
        store = None if no_cache else open_ledger(ledger_place(ledger))
    if grader is not None:
        return _print(
            grade_case(grader, document_case(document, sample), judge=who, ledger=store, replay=replay or "")
        )
    assert chosen is not None
    result = graded(
        chosen,
        sample,
        judge=who,
        ledger=store,
        replay=replay or "",
        settings=Settings.of(
            against or options.get("against"), scale or options.get("scale"), options.get("rubric")
        ),
        strict=bool(options.get("strict", False)),
        expected_relevant_count=options.get("expected_relevant_count"),
        threshold=options.get("threshold"),
    )
    return _print(result)


def _print(result: Graded) -> None:
    """One line of JSON; exit code 3 where there is no score."""
    from germane.clean import clean_json, clean_lines

    if result.result is None:
        print(f"germane: {clean_lines(str(result.error))}", file=sys.stderr)
        raise typer.Exit(3)
    print(clean_json(json.dumps(result.result, ensure_ascii=False)))
