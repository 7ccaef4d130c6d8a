"""`germane draft`: from the flags to the folder, the last line and the exit code."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from germane.addons.draft import ease
from germane.addons.draft.checks import reason_counts
from germane.addons.draft.document import (
    DraftDocument,
    as_json,
    check_folder,
    checked_by_people,
    first_dropped,
    read_labels,
    spending,
    write_folder,
)
from germane.addons.draft.drafting import FIRST, Drafter, DraftOptions
from germane.addons.draft.drawing import MIX, STYLES, Turn, TurnOrder, draw, parse_shares, slots
from germane.addons.draft.forecast import forecast
from germane.addons.draft.passages import Source, office_files, read_source
from germane.addons.draft.rivals import Search
from germane.clean import counted
from germane.cli import print_document, say
from germane.cli.values import print_lines
from germane.errors import InputError, Interrupted, JudgeError, LimitReached
from germane.evaluation import run_coroutine
from germane.evaluation.choice import ledger_address, no_judge, open_ledger, pick_judge
from germane.evaluation.spec import Spec
from germane.judges import Judge
from germane.judging.pool import Pool
from germane.judging.spending import Budget, check_price
from germane.ledger.store import password_apart
from germane.questions import AnyQuestion
from germane.samples import Notices, read_samples
from germane.targets import Target, open_target
from germane.types import Json, Sample

_SHOWN, _AHEAD = 6, 16
_EASY, _MANY_RIVALS = 0.8, 0.2


def draft(
    *,
    corpus: Path,
    number: int,
    judge: str | None,
    writer: str | None,
    mix: str,
    style: str,
    like: Path | None,
    language: str | None,
    pool: Sequence[Path],
    target: str | None,
    targets_file: Path | None,
    seed: int,
    allow_personal: bool,
    output: Path,
    dry_run: bool,
    max_cost: float | None,
    max_calls: int | None,
    ledger: str | None,
    replay: str | None,
    no_cache: bool,
    json: bool,
    **of_judge: Any,
) -> int:
    """Draft a test set from a corpus: questions, answers and gold quotes, every dropped one with its reason.

    Writes samples.jsonl, dropped.jsonl and draft.json. Every answer is in the ledger before it is used: the same command again
    makes no calls, a larger -n keeps the questions that are there. Exit code 3 where fewer than -n were kept.
    """
    shares, styles = parse_shares(mix, "--mix", MIX), parse_shares(style, "--style", STYLES)
    checker, author = _judges(judge, writer, of_judge)
    source = _read(corpus)
    before = check_folder(output, source)
    _check_size(source, corpus, number)
    real = _real_questions(like) if like is not None else []
    shown = tuple(sample.query for sample in random.Random(seed).sample(real, min(_SHOWN, len(real))))  # noqa: S311 - a draw that can be repeated
    turns = draw(source.usable, seed, shares, styles)
    if dry_run:
        return _dry_run(source, turns, number, shown, author, checker, json=json, like=like)
    for one in (author, checker):
        check_price(one, max_cost)
    asked = None if target is None else open_target(target, targets_file or Path.cwd())
    _warn(author, checker, turns, {kind: list(slots(shares, number)).count(kind) for kind in shares}, asked)
    search = Search(source, pool, asked)
    plan = DraftOptions(seed=seed, language=language or "", examples=shown, allow_personal=allow_personal)
    replayed = None if replay is None else password_apart(replay)
    store = open_ledger(None if no_cache else ledger_address(ledger), replayed)
    made: list[int] = []

    async def run() -> Drafter:
        asking = Pool(
            _route(author, checker), store, budget=Budget(max_cost, max_calls), replay=replayed or ""
        )
        async with asking:
            drafter = Drafter(
                asking, search, TurnOrder(turns, shares, number), plan,
                ahead=2 * (of_judge["jobs"] or _AHEAD), progress=lambda drafter: _progress(drafter, number),
            )  # fmt: skip
            try:
                await drafter.run()
            except (LimitReached, JudgeError) as error:
                drafter.stopped = str(error)
            made.append(asking.spent.calls)
        return drafter

    try:
        drafter = run_coroutine(run())
    except KeyboardInterrupt:
        raise Interrupted("interrupted; all answers are kept: the same command goes on") from None
    finally:
        if store is not None:
            store.close()
    rows = [attempt.row for attempt in drafter.kept]
    labels, removed = _looked_at(output, rows, before or {})
    document = _document(
        drafter, source, search, real, number, shares, seed, labels, removed, checker, author
    )
    write_folder(output, document, [row for row in rows if row["id"] not in removed], drafter)
    if json:
        print_document(as_json(document))
    else:
        print_lines(last_line(as_json(document), output))
    say(f"{counted(sum(made), 'call was', 'calls were')} made now")
    if document.exit_code:
        say(_why_fewer(document))
    return document.exit_code


def _read(corpus: Path) -> Source:
    """The corpus, with a note about its files that are no text."""
    source = read_source(corpus)
    if unread := office_files(corpus):
        names = ", ".join(unread[:3]) + " ..." * (len(unread) > 3)
        say(f"note: left out, not text: {names} ({len(unread)}); make text of them: markitdown F > F.md")
    return source


def _looked_at(
    folder: Path, rows: Sequence[dict[str, Any]], before: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The labels of these questions, marked in their rows, and the ids of the questions that stay removed."""
    labels = read_labels(folder, rows)
    looked_at = {label["sample"] for label in labels}
    for row in rows:
        row["metadata"]["draft"]["looked_at"] = row["id"] in looked_at
    redrawn = {row["id"] for row in rows} - looked_at
    return labels, [name for name in before.get("removed") or () if name not in redrawn]


def _check_size(source: Source, corpus: Path, n: int) -> None:
    """InputError where the corpus has fewer than n / 3 passages that a question could come from."""
    if 3 * len(source.usable) < n:
        skipped = ", ".join(f"{count} {reason}" for reason, count in source.skipped.items())
        left_out = f" ({skipped} left out)" if skipped else ""
        problem = f"{counted(len(source.usable), 'passage')} of {corpus} can have a question{left_out}: too few for -n {n}"
        raise InputError(problem, fix="name more documents, or a smaller -n")


def _route(writer: Judge, judge: Judge) -> Callable[[AnyQuestion], Judge]:
    """Who answers a question: the writer writes, the judge checks."""
    return lambda question: (writer if question.kind == "draft" else judge).answering(question)


def _warn(
    writer: Judge, judge: Judge, turns: dict[str, list[Turn]], wanted: dict[str, int], target: Target | None
) -> None:
    """Say what the set will be weak in."""
    if writer.name == judge.name:
        say(f"note: {writer.name} checks what it wrote itself; name another family with --writer or --judge")
    for kind, count in wanted.items():
        if count > len(turns[kind]):
            say(
                f"note: {counted(len(turns[kind]), 'passage')} drawn for {kind}, {count} wanted: the rest stays unfilled"
            )
    family = writer.name.rpartition(":")[2].partition("-")[0].lower()
    if target is not None and any(
        name and family in name.lower() for name in (target.models.generator, target.models.rewriter)
    ):
        say(
            f"note: a model of {target.name} is of the writer's family ({writer.name}): its questions may suit it"
        )


def _judges(judge: str | None, writer: str | None, flags: dict[str, Any]) -> tuple[Judge, Judge]:
    """The judge and the writer; InputError for one that cannot write."""
    spec = Spec.of(judge=judge, reading="single", **flags).in_project()
    checker = pick_judge(spec)
    if checker is None:
        raise no_judge(["draft"])
    author = checker if writer is None else pick_judge(spec.but(judge=writer))
    assert author is not None
    for one in (checker, author):
        if one.stand_in or not one.stored or one.decides:
            problem = f"{one.name} cannot draft: a rule cannot write questions"
            raise InputError(problem, fix="name a model: --judge openai:gpt-4o-mini")
    return checker, author


def _real_questions(path: Path) -> list[Sample]:
    """Real questions: samples with whatever gold they have, or one question a line of a text file."""
    if path.suffix.lower() in {".txt", ""} and path.is_file():
        lines = path.read_text("utf-8-sig").splitlines()
        result = [
            Sample(id=str(number), query=line.strip()) for number, line in enumerate(lines, 1) if line.strip()
        ]
    else:
        result = list(read_samples(path, warn=Notices(lambda notice: say(f"warning: {notice}"))))
    if not result:
        raise InputError(f"no question in {path}", fix="write samples, or one question a line (.txt)")
    return result


def _dry_run(
    source: Source,
    turns: dict[str, list[Turn]],
    n: int,
    shown: Sequence[str],
    writer: Judge,
    judge: Judge,
    *,
    json: bool,
    like: Path | None,
) -> int:
    """Print what drafting would ask and cost; nobody is asked."""
    listed = [
        turn for some in zip(*(some for some in turns.values() if some), strict=False) for turn in some
    ] or [turn for some in turns.values() for turn in some]
    guess = forecast(n, listed, writer, judge, shown, source.passages)
    leaves = [
        f"up to {min(len(source.usable), 4 * n)} of {counted(len(source.passages), 'passage')} of {source.name}, and the passages that a search finds for each question"
    ]
    if shown:
        leaves.append(f"{counted(len(shown), 'question')} of {like}")
    sent_to = sorted({writer.name, judge.name})
    if json:
        print_document({"schema_version": 1, "n": n, "writer": writer.name, "judge": judge.name, "forecast": guess, "guess": True,
                        "sent": leaves, "sent_to": sent_to, "passages": len(source.passages), "skipped": source.skipped})  # fmt: skip
        return 0
    print(
        f"dry run: {n} questions from {counted(len(source.usable), 'passage')} of {counted(len(source.documents), 'document')}; no calls are made"
    )
    for name, row in guess.items():
        cost = "price unknown (give --price IN/OUT)" if row["cost_usd"] is None else f"${row['cost_usd']:.4f}"
        tokens = row["tokens"]
        print(
            f"{name:8} {row['calls']:6,} calls, about {tokens['input']:,} + {tokens['output']:,} tokens, {cost}"
        )
    print("a guess: the share of attempts that is kept is not known before 20 attempts")
    print(f"sent to {' and '.join(sent_to)}: {'; '.join(leaves)}")
    return 0


def _progress(drafter: Drafter, n: int) -> None:
    """After 20 attempts say what the rest will cost, in place of the guess."""
    done, kept = len(drafter.attempts), len(drafter.kept)
    if done == FIRST and kept and kept < n:
        calls, _, cost = spending([answer for attempt in drafter.attempts for answer in attempt.judgements])
        price = "" if cost is None else f", ${cost * n / kept:.4f}"
        say(f"{kept} of {done} attempts kept: about {round(calls * n / kept):,} calls{price} in all")
    elif done % 100 == 0:
        say(f"{kept} of {n} kept after {done} attempts")


def _document(
    drafter: Drafter, source: Source, search: Search, real: Sequence[Sample], n: int, shares: dict[str, int], seed: int,
    labels: Sequence[dict[str, Any]], removed: list[str], judge: Judge, writer: Judge,
) -> DraftDocument:  # fmt: skip
    kept = drafter.kept
    rows = [attempt.row for attempt in kept if attempt.row["id"] not in removed]
    clusters = [row["cluster"] for row in rows]
    own = ease.summary(
        [ease.measured(row["query"], list(row.get("qrels") or ()), search) for row in rows], clusters
    )
    facts: dict[str, Json] = {"drafted": own}
    if real:
        theirs = ease.summary([ease.of_sample(sample, search) for sample in real])
        facts |= {"like": theirs, **ease.compared(own, theirs)}
    wanted, tried = Counter(slots(shares, n)), drafter.order.tried
    calls, tokens, cost = spending([answer for attempt in drafter.attempts for answer in attempt.judgements])
    answerable = [attempt for attempt in kept if attempt.turn.kind != "near-miss"]
    return DraftDocument(
        exit_code=0 if len(kept) >= n else 3,
        n=n,
        kept=len(kept),
        attempts=len(drafter.attempts),
        corpus={"digest": source.digest, "name": source.name, "documents": len(source.documents), "passages": len(source.passages), "skipped": source.skipped},
        dropped=reason_counts(first_dropped(drafter.attempts)),
        kinds={kind: {"wanted": wanted[kind], "kept": drafter.order.kept[kind], "attempts": tried[kind]} for kind, share in shares.items() if share},
        ease=facts,
        precision=ease.precision(clusters),
        rivals=sum(attempt.rivals > 0 for attempt in answerable) / len(answerable) if answerable else None,
        search=search.name,
        searched={attempt.row["id"]: attempt.searched for attempt in kept},
        documents_covered=len(set(clusters)),
        judge=judge.name,
        writer=writer.name,
        calls=calls,
        tokens=tokens,
        cost_usd=cost,
        seed=seed,
        stopped=drafter.stopped,
        checked_by_people=checked_by_people(labels),
        removed=removed,
    )  # fmt: skip


def _why_fewer(document: DraftDocument) -> str:
    """Which step ate the attempts."""
    eaten = [
        (count, f"{count} {step}: {reason}")
        for step, reasons in document.dropped.items()
        for reason, count in reasons.items()
    ]
    steps = ", ".join(text for _, text in sorted(eaten, reverse=True))
    kept = f"{document.kept} of {document.attempts} attempts kept, {document.n} wanted"
    weak = " This model cannot write here." if document.attempts >= FIRST and not document.kept else ""
    return f"{kept}: {steps or ('stopped' if document.stopped else 'no passage left')}.{weak}{f' {document.stopped}' * bool(document.stopped)}"


def last_line(document: dict[str, Any], folder: Path) -> str:
    """The set in one line: its size, how easy it is, its rivals, and that nobody has looked."""
    corpus, known = document["corpus"], document["precision"]
    price = "" if document["cost_usd"] is None else f", ${document['cost_usd']:.2f}"
    size = f"{counted(document['kept'], 'question')} from {document['documents_covered']} of {counted(corpus['documents'], 'document')}"
    paid = f"({document['kept']} of {counted(document['attempts'], 'attempt')}; {counted(document['calls'], 'call')}{price})"
    parts = [f"{size} {paid}.", *_ease_in_words(document["ease"])]
    if width := known["share_half_width"]:
        shows = f"a paired difference of {known['detectable_ndcg_at_10']:.3f} nDCG@10 shows in 4 of 5 cases"
        parts.append(
            f"A share near .7 will be known to +-{width:.2f}; {shows} (spread of TREC DL 2019; yours will differ)."
        )
    parts += _rivals_in_words(document)
    checked = document["checked_by_people"]
    if checked is not None:
        low, high = checked["interval"]
        parts.append(
            f"{checked['bad']} of {checked['n']} looked at are bad: between {low:.0%} and {high:.0%}."
        )
    elif document["kept"]:
        parts.append(f"Nobody has looked at them: germane label {folder} --budget 20")
    return " ".join(parts)


def _share(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{row['mean']:.0%} at rank 1 ({low:.0%} to {high:.0%})"


def _ease_in_words(facts: dict[str, Any]) -> list[str]:
    """What BM25 finds, beside the user's own questions where there are some."""
    first = facts["drafted"]["bm25_at_1"]
    if not first["interval"]:
        return []
    line = f"BM25 finds {_share(first)}"
    if "like" in facts:
        gold, n = facts["like"]["bm25_at_1"], facts["like"]["n"]
        theirs = _share(gold).replace(" at rank 1", "") if gold["interval"] else "no gold is known"
        verdict = f": {facts['verdict']}" if facts["verdict"] else ""
        line += f", of your {n} real questions {theirs}{verdict}"
    hardly = ["An improvement over word search can hardly show here."] if first["mean"] > _EASY else []
    return [f"{line}.", *hardly]


def _rivals_in_words(document: dict[str, Any]) -> list[str]:
    """How many questions have rivals, and what near-misses were searched in."""
    kinds, share, parts = document["kinds"], document["rivals"] or 0.0, list[str]()
    count = round(share * sum(row["kept"] for kind, row in kinds.items() if kind != "near-miss"))
    if count:
        parts.append(
            "1 has rivals and gives a range." if count == 1 else f"{count} have rivals and give ranges."
        )
    if share > _MANY_RIVALS:
        parts.append(
            "More than one place answers: judge both systems (run --judge, compare) instead of reading gold alone."
        )
    if misses := kinds.get("near-miss", {}).get("kept"):
        parts.append(
            f"{counted(misses, 'near-miss', 'near-misses')}: no answer found in the top 20 of {document['search']}."
        )
    return parts
