"""The command `germane draft`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from germane.addons.draft import document as files
from germane.addons.draft import passages
from germane.addons.draft.drafting import FIRST, Drafter, Search, spending
from germane.addons.draft.passages import DraftCorpus, Turn, TurnOrder
from germane.clean import counted
from germane.cli.output import print_document, print_lines, say
from germane.errors import InputError, Interrupted, JudgeError, LimitReached
from germane.evaluation.session import open_ledger
from germane.evaluation.spec import Spec, ledger_address, pick_judge
from germane.judges import Judge
from germane.judging.asker import Asker
from germane.judging.caller import run_coroutine
from germane.judging.spending import Budget, check_price
from germane.ledger.sqlite import password_apart
from germane.samples import Notices, read_samples
from germane.targets import Target, open_target
from germane.types import Sample

_SHOWN, _AHEAD = 6, 16
_EASY, _MANY_RIVALS = 0.8, 0.2


def draft(
    *,
    corpus: Path,
    number: int,
    output: Path,
    dry_run: bool,
    json: bool,
    seed: int,
    pool: Sequence[Path],
    target: str | None,
    targets_file: Path | None,
    like: Path | None,
    judge: str | None,
    writer: str | None,
    mix: str,
    style: str,
    language: str | None,
    allow_personal: bool,
    **of_run: Any,
) -> int:
    """Draft a test set from a corpus: questions, answers, gold quotes, and why questions were rejected.

    Writes samples.jsonl, dropped.jsonl and draft.json. Every answer is stored in the ledger before it is
    used. The same command again therefore makes no calls, and a larger -n adds questions. Exit code 3 if
    fewer than -n questions were accepted, else 0.
    """
    shares = passages.parse_shares(mix, "--mix", passages.MIX)
    styles = passages.parse_shares(style, "--style", passages.STYLES)
    spec = Spec.of(judge=judge, reading="single", **of_run)
    checker, author = _judges(spec.in_project(), writer)
    source = passages.read_corpus(corpus, number)
    before = files.check_folder(output, source)
    real = _real_questions(like) if like is not None else []
    shown = tuple(sample.query for sample in random.Random(seed).sample(real, min(_SHOWN, len(real))))  # noqa: S311 - a draw that can be repeated
    turns = passages.draw(source.usable, seed, shares, styles)
    if dry_run:
        _dry_run(source, turns, number, shown, (checker, author), json=json)
        return 0
    for model in (author, checker):
        check_price(model, spec.max_cost)
    asked = None if target is None else open_target(target, targets_file or Path.cwd())
    order = TurnOrder(turns, list(passages.slots(shares, number)))
    _warn(author, checker, order, asked)
    search, replay = Search(source, pool, asked), password_apart(spec.replay) if spec.replay else None
    store = open_ledger(None if spec.no_cache else ledger_address(spec.ledger), replay)

    async def run() -> Drafter:
        budget, of_kind = Budget(spec.max_cost, spec.max_calls), {"draft": author}
        async with Asker(checker, store, of_kind=of_kind, budget=budget, replay=replay or "") as asking:
            drafter = Drafter(
                asking,
                search,
                order,
                seed=seed,
                language=language or "",
                examples=shown,
                allow_personal=allow_personal,
                ahead=2 * (spec.jobs or _AHEAD),
            )
            try:
                await drafter.run()
            except (LimitReached, JudgeError) as error:
                drafter.stopped = str(error)
        return drafter

    try:
        drafter = run_coroutine(run())
    except KeyboardInterrupt:
        raise Interrupted("interrupted; all answers are stored: repeat the command to continue") from None
    finally:
        if store is not None:
            store.close()
    return _finish(drafter, source, (checker, author), real, output, before, json=json)


def _judges(spec: Spec, writer: str | None) -> tuple[Judge, Judge]:
    """Return the judge and the writer. Raises InputError if none is given, or one cannot write questions."""
    checker = pick_judge(spec)
    author = checker if writer is None else pick_judge(spec.but(judge=writer))
    if checker is None or author is None:
        raise InputError("no model is named", fix="name one: --judge openai:gpt-4o-mini")
    for model in (checker, author):
        if model.stand_in or not model.stored:
            problem = f"{model.name} is not a model, so it cannot write or check questions"
            raise InputError(problem, fix="name a model: --judge openai:gpt-4o-mini")
    return checker, author


def _finish(
    drafter: Drafter,
    source: DraftCorpus,
    judges: tuple[Judge, Judge],
    real: Sequence[Sample],
    output: Path,
    before: Mapping[str, Any],
    *,
    json: bool,
) -> int:
    """Write and print the set, and return the exit code; `before` is the folder's earlier draft.json."""
    rows = [attempt.row for attempt in drafter.kept]
    drafted = {row["id"] for row in rows}
    labels = files.read_labels(output, rows, drafted)
    settled = drafted - {label["item"] for label in labels}
    removed = [name for name in before.get("removed", ()) if name not in settled]
    rows = files.settle_rows(rows, labels, removed)
    document = _document(drafter, source, judges, real, rows, labels)
    document.removed = removed
    larger = before.get("kept", 0) if drafter.stopped else 0
    if drafter.attempts and len(drafter.kept) >= larger:
        output.mkdir(parents=True, exist_ok=True)
        files.write_document(output, structs.asdict(document))
        numbered = enumerate(drafter.attempts, 1)
        dropped = ({"attempt": n, **row} for n, attempt in numbered for row in attempt.dropped)
        files.write_rows(output / files.DROPPED, dropped)
        files.write_rows(output / files.SAMPLES, rows)
    if json:
        print_document(structs.asdict(document))
    else:
        print_lines(last_line(document, output))
    say(f"{counted(drafter.pool.spent.calls, 'call was', 'calls were')} made now")
    if document.exit_code:
        say(_why_fewer(document))
    if len(drafter.kept) < larger:
        say(f"{output} was left as it is, with {counted(larger, 'question')}")
    return document.exit_code


def _document(
    drafter: Drafter,
    source: DraftCorpus,
    judges: tuple[Judge, Judge],
    real: Sequence[Sample],
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[Mapping[str, Any]],
) -> files.DraftDocument:
    """Return the content of draft.json for the attempts of `drafter`."""
    kept, number, clusters = drafter.kept, len(drafter.order.slots), [row["cluster"] for row in rows]
    ended = [attempt.dropped for attempt in drafter.attempts if attempt.dropped and not attempt.row]
    last = [max(rejected, key=lambda row: files.STEPS.index(row["step"])) for rejected in ended]
    dropped: dict[str, dict[str, int]] = {row["step"]: {} for row in last}
    for (step, reason), count in sorted(Counter((row["step"], row["reason"]) for row in last).items()):
        dropped[step][reason] = count
    rivals = [attempt.rivals > 0 for attempt in kept if attempt.turn.kind != "near-miss"]
    return files.DraftDocument(
        exit_code=0 if len(kept) >= number else 3,
        n=number,
        kept=len(kept),
        attempts=len(drafter.attempts),
        corpus=source.as_json(),
        dropped=dropped,
        kinds=drafter.order.counts(),
        ease=files.of_set(rows, clusters, real, drafter.search),
        precision=files.precision(clusters),
        rivals=sum(rivals) / len(rivals) if rivals else None,
        search=drafter.search.name,
        searched={attempt.row["id"]: attempt.searched for attempt in kept},
        documents_covered=len(set(clusters)),
        judge=judges[0].name,
        writer=judges[1].name,
        **spending(drafter.attempts),
        seed=drafter.seed,
        stopped=drafter.stopped,
        checked_by_people=files.checked_by_people(labels),
    )


def _real_questions(path: Path) -> list[Sample]:
    """Return the real questions in a file: its samples, or the lines of a text file."""
    if path.suffix.lower() in {".txt", ""} and path.is_file():
        lines = enumerate(map(str.strip, path.read_text("utf-8-sig").splitlines()), 1)
        result = [Sample(id=str(number), query=line) for number, line in lines if line]
    else:
        result = list(read_samples(path, warn=Notices(lambda notice: say(f"warning: {notice}"))))
    if not result:
        fix = "write samples (.jsonl), or one question per line (.txt)"
        raise InputError(f"{path} has no questions", fix=fix)
    return result


def _warn(writer: Judge, judge: Judge, order: TurnOrder, target: Target | None) -> None:
    """Print notes on a writer that is the judge or of the target's family, and on too few passages."""
    if writer.name == judge.name:
        say(f"note: {writer.name} checks its own questions; name another model with --writer or --judge")
    for kind, wanted in Counter(order.slots).items():
        if wanted > (have := len(order.turns[kind])):
            say(f"note: {counted(have, 'passage')} found for {kind} questions, but {wanted} needed")
    family = writer.name.rpartition(":")[2].partition("-")[0].lower()
    models = () if target is None else (target.models.generator, target.models.rewriter)
    if target is not None and any(name and family in name.lower() for name in models):
        relation = f"a model of {target.name} is of the writer's family ({writer.name})"
        say(f"note: {relation}, so its questions may favour this target")


def _dry_run(
    source: DraftCorpus,
    turns: Mapping[str, Sequence[Turn]],
    n: int,
    shown: Sequence[str],
    judges: tuple[Judge, Judge],
    *,
    json: bool,
) -> None:
    """Print the expected calls and cost, and what is sent, as text or as a JSON document."""
    listed = list(chain.from_iterable(zip(*filter(None, turns.values()), strict=False)))
    guess = files.forecast(n, listed, judges, shown, source.passages)
    models = sorted({model.name for model in judges})
    shown_passages = min(len(source.usable), passages.TRIES * n)
    those = f"up to {shown_passages} of {counted(len(source.passages), 'passage')} of {source.name}"
    sent = [f"{those}, and the passages found by a search for each question"]
    sent += [f"{counted(len(shown), 'question')} of --like"] if shown else []
    lines = [f"dry run: {n} questions from {counted(len(source.documents), 'document')}; no calls are made"]
    for name, row in guess.items():
        cost = "price unknown (give --price IN/OUT)" if row["cost_usd"] is None else f"${row['cost_usd']:.4f}"
        tokens = f"{row['tokens']['input']:,} + {row['tokens']['output']:,} tokens"
        lines.append(f"{name:8} {row['calls']:6,} calls, about {tokens}, {cost}")
    lines.append("the numbers are a guess: the acceptance rate is unknown before 20 attempts")
    lines.append(f"sent to {' and '.join(models)}: {'; '.join(sent)}")
    if json:
        document = {"schema_version": 1, "n": n, "judge": judges[0].name, "writer": judges[1].name}
        print_document({**document, "forecast": guess, "guess": True, "sent": sent, "sent_to": models})
    else:
        print_lines("\n".join(lines))


def _why_fewer(document: files.DraftDocument) -> str:
    """Return a sentence on why too few questions were accepted: the steps that rejected attempts."""
    rows = ((step, reason, n) for step, reasons in document.dropped.items() for reason, n in reasons.items())
    counts = sorted(((n, f"{n} {step}: {reason}") for step, reason, n in rows), reverse=True)
    steps = ", ".join(text for _, text in counts)
    kept = f"{document.kept} of {document.attempts} attempts accepted, {document.n} wanted"
    text = f"{kept}: {steps or ('stopped' if document.stopped else 'no passage left')}."
    text += (
        " This model cannot write usable questions for this corpus."
        if document.attempts >= FIRST and not document.kept
        else ""
    )
    return f"{text} {document.stopped}".rstrip()


def last_line(document: files.DraftDocument, folder: Path) -> str:
    """Return one line about the set: its size, its ease, its rivals, and whether people checked it."""
    kept, near_misses = document.kept, document.kinds.get("near-miss", {}).get("kept", 0)
    price = "" if document.cost_usd is None else f", ${document.cost_usd:.2f}"
    documents = f"{document.documents_covered} of {counted(document.corpus['documents'], 'document')}"
    left = document.precision["questions"]
    removed = f", {kept - left} removed" if kept > left else ""
    price = f"; {counted(document.calls, 'call')}{price}"
    paid = f"{kept} of {counted(document.attempts, 'attempt')}{removed}{price}"
    parts, ease = [f"{counted(left, 'question')} from {documents} ({paid})."], document.ease
    first = ease["drafted"]["bm25_at_1"]
    if first["interval"]:
        share = "{mean:.0%} ({interval[0]:.0%} to {interval[1]:.0%})"
        line = "BM25 finds {mean:.0%} at rank 1 ({interval[0]:.0%} to {interval[1]:.0%})".format(**first)
        if "like" in ease:
            gold = ease["like"]["bm25_at_1"]
            theirs = share.format(**gold) if gold["interval"] else "unknown, as they have no gold"
            verdict = f": {ease['verdict']}" if ease["verdict"] else ""
            line += f"; of your {counted(ease['like']['n'], 'real question')} {theirs}{verdict}"
        parts.append(f"{line}.")
        if first["mean"] > _EASY:
            parts.append("This set can hardly show an improvement over BM25.")
    if width := document.precision["share_half_width"]:
        parts.append(
            f"A share near .7 will have an interval of +-{width:.2f}; a paired difference of "
            f"{document.precision['detectable_ndcg_at_10']:.3f} in nDCG@10 is detected in 4 of 5 cases "
            "(with the variance of TREC DL 2019; yours will differ)."
        )
    rivals = document.rivals or 0.0
    if count := round(rivals * (kept - near_misses)):
        parts.append(f"{count} can also be answered from other documents: their scores are ranges.")
    if rivals > _MANY_RIVALS:
        instead = "judge both systems (run --judge, compare) instead of reading gold alone"
        parts.append(f"Gold is incomplete for many questions: {instead}.")
    if near_misses:
        misses = counted(near_misses, "near-miss", "near-misses")
        parts.append(f"{misses}: no answer found in the top 20 of {document.search}.")
    if checked := document.checked_by_people:
        low, high = checked["interval"]
        bad = f"{checked['bad']} of {checked['n']} checked questions are bad"
        parts.append(f"{bad}: 95% interval {low:.0%} to {high:.0%} of all questions.")
    elif kept:
        parts.append(f"No person has checked the questions: run germane label {folder} --budget 20")
    return " ".join(parts)
