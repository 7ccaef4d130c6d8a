"""How far judges agree with people: the lexical rule, and the language models of the LLMJudge challenge.

    python -m benchmarks.judge_agreement pairs.jsonl.gz
    OPENAI_API_KEY=... python -m benchmarks.judge_agreement pairs.jsonl.gz --judge openai:gpt-4o-mini --arms fused,alone,list10

With `--judge` germane's own prompts are measured on the model that is named: answers are kept in a ledger, so a second call
costs nothing; `--limit N` takes N pairs drawn at random (seed 1). `--arms` names how the model is asked, each arm one
evaluation: its kappa on two grades, the difference to the first arm (paired, clustered by query), tokens and price.

    fused         as users run it: relevance with what else is asked of a passage, in one request (the default)
    alone         relevance alone
    reference     alone, beside the reference answer (samples that have one)
    no-reference  alone, against the query
    list10        ten passages of a query in one request, shuffled
    umbrela       UMBRELA's own wording (Upadhyay et al. 2024)
    no-extra-rule germane's wording without its last line
    no-reasoning  a grade without a sentence that gives the reason

In the place of the file a labelled report folder may stand: its passages that people labelled, and its references.

The file is the LLMJudge challenge's data on TREC Deep Learning 2023, one pair a line:

    {"qid": "q1", "query": "...", "passage": "...", "human": 2, "judges": {"model": 1, ...}}

Grades run from 0 to 3 and count as relevant from 2. A judge's grade outside that scale is excluded from its
agreement and counted. The interval beside the kappa on two grades is the middle 95% of 2,000 resamplings of the
queries (seed 1): there are only 25, and pairs of one query are not independent. The rule's thresholds were
chosen on the pairs of half the queries ("tuned on"); the other half was held out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field

from germane import Context, Report, Sample, evaluate
from germane.judges import LLMJudge
from germane.judges.lexical import LexicalJudge
from germane.questions import Relevance
from germane.questions.payload import PayloadModel, Whole
from germane.questions.prompts import load
from germane.questions.text import stems
from germane.statistics.agreement import cohen_kappa, confusion
from germane.statistics.systems import paired_difference
from germane.tables.labels import LabelBook
from germane.types import Usage

Row: TypeAlias = dict[str, Any]
GRADES, RELEVANT, DRAWS = range(4), 2, 2000


@dataclass(frozen=True, slots=True)
class Agreement:
    """One judge against people: pairs counted, out of scale, kappa on two and on four grades, share relevant."""

    judge: str
    n: int
    excluded: int
    two: float
    interval: tuple[float, float]
    four: float
    relevant: float

    def __str__(self) -> str:
        low, high = self.interval
        kappas = f"{self.two:7.3f} {low:5.2f} ..{high:5.2f} {self.four:8.3f}"
        return f"{self.judge:26}{self.n:6} {self.excluded:8} {kappas} {self.relevant:9.3f}"


def kappa(pairs: Mapping[tuple[int, int], int]) -> float:
    """Cohen's kappa of counted pairs of grades: agreement beyond what the two shares alone would give."""
    first, second = Counter[int](), Counter[int]()
    for (one, other), count in pairs.items():
        first[one] += count
        second[other] += count
    n = first.total()
    observed = sum(count for (one, other), count in pairs.items() if one == other) / n
    expected = sum(first[grade] * second[grade] for grade in first) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else 0.0


def interval(tables: Sequence[Counter[tuple[int, int]]]) -> tuple[float, float]:
    """The middle 95% of kappa over resampled queries; one table of counted pairs a query."""
    rng = random.Random(1)
    drawn = sorted(kappa(_sum(rng.choices(tables, k=len(tables)))) for _ in range(DRAWS))
    return drawn[DRAWS // 40], drawn[-1 - DRAWS // 40]


def _sum(tables: Sequence[Counter[tuple[int, int]]]) -> Counter[tuple[int, int]]:
    total = Counter[tuple[int, int]]()
    for table in tables:
        total.update(table)
    return total


def agreement(judge: str, grades: Sequence[int | None], rows: Sequence[Row]) -> Agreement:
    """A judge's grades beside people's; what is missing or off the scale is left out and counted."""
    graded = [(g, row) for g, row in zip(grades, rows, strict=True) if g is not None and g in GRADES]
    tables: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    for grade, row in graded:
        tables[row["qid"]][int(grade >= RELEVANT), int(row["human"] >= RELEVANT)] += 1
    return Agreement(
        judge=judge,
        n=len(graded),
        excluded=len(grades) - len(graded),
        two=kappa(_sum(list(tables.values()))),
        interval=interval(list(tables.values())),
        four=kappa(Counter((grade, row["human"]) for grade, row in graded)),
        relevant=sum(grade >= RELEVANT for grade, _ in graded) / len(graded),
    )


def read_pairs(path: Path) -> list[Row]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def lexical_grades(rows: Sequence[Row]) -> list[int]:
    judge = LexicalJudge()
    questions = [Relevance(query=row["query"], passage=row["passage"]) for row in rows]
    return [int(judge.reply(question).payload["grade"]) for question in questions]


UMBRELA = """Given a query and a passage, you must provide a score on an integer scale of 0 to 3 with the following meanings:
0 = represent that the passage has nothing to do with the query,
1 = represents that the passage seems related to the query but does not answer it,
2 = represents that the passage has some answer for the query, but the answer may be a bit unclear, or hidden amongst \
extraneous information and
3 = represents that the passage is dedicated to the query and contains the exact answer.

Important Instruction: Assign category 1 if the passage is somewhat related to the topic but not completely, category 2 if \
passage presents something very important related to the entire topic but also has some extra information and category 3 if \
the passage only and entirely refers to the topic. If none of the above satisfies give it category 0.

Query: {{query}}
Passage: {{passage}}

Split this problem into steps:
Consider the underlying intent of the search.
Measure how well the content matches a likely intent of the query (M).
Measure how trustworthy the passage is (T).
Consider the aspects above and the relative importance of each, and decide on a final score (O). Final score must be an \
integer value only.
"""


class BareGrade(PayloadModel):
    """A grade without a reason."""

    reasoning: ClassVar[str] = ""
    grade: Whole = Field(ge=0, le=3, description="0 to 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to ask: what is measured, against what, how the judge is set, its own wording, whether it gives reasons."""

    measures: str = "context_precision"
    against: str = "auto"
    batch: int = 1
    prompt: str = ""
    reasons: bool = True


ARMS = {
    "fused": Arm(measures="context_precision context_relevancy"),
    "alone": Arm(),
    "reference": Arm(against="reference"),
    "no-reference": Arm(against="query"),
    "list10": Arm(batch=10),
    "umbrela": Arm(prompt=UMBRELA),
    "no-extra-rule": Arm(prompt=load("relevance").text.rpartition("\n")[0]),
    "no-reasoning": Arm(reasons=False),
}
"""What `--arms` may name."""


@contextmanager
def grades_alone() -> Iterator[None]:
    """Have relevance answered by a grade without its reason."""
    before = {name: vars(Relevance)[name] for name in ("usual_payload", "payload_type")}
    Relevance.usual_payload = classmethod(lambda _: BareGrade)  # type: ignore[assignment,method-assign]
    Relevance.payload_type = lambda *_: BareGrade  # type: ignore[method-assign]
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Relevance, name, method)


def ask(rows: Sequence[Row], name: str, options: argparse.Namespace) -> tuple[list[int | None], Usage]:
    """The grades of a judge that is asked as an arm says, None where it gave none, and what they cost."""
    arm, ledger = ARMS[name], options.ledger  # a ledger each: a fused answer would serve relevance alone
    queries: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        queries[row["qid"], row.get("reference") or ""].append(row)
    samples = [
        Sample(
            id=f"{qid}.{number}", query=some[0]["query"], reference=reference or None,
            contexts=tuple(Context(text=row["passage"]) for row in some),
        )
        for number, ((qid, reference), some) in enumerate(queries.items())
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, nullcontext() if arm.reasons else grades_alone():
        prompts = {}
        if arm.prompt:
            prompts["relevance"] = Path(folder) / "relevance.md"
            prompts["relevance"].write_text(arm.prompt, "utf-8")
        judge = LLMJudge(options.judge, base_url=options.base_url, batch=arm.batch, prompts=prompts)
        report = evaluate(
            samples,
            arm.measures,
            judge=judge,
            against=arm.against,
            ledger=ledger.with_stem(f"{ledger.stem}-{name}"),
            max_cost=options.max_cost,
            max_unmeasured=1.0,
        )
    answers = {
        one.item: one.answer["grade"]
        for one in report.judgements()
        if one.kind == "relevance" and not one.error
    }
    items = (Relevance(query=row["query"], passage=row["passage"]).item for row in rows)
    used = [one.usage for one in report.judgements()]
    prices = [one.cost_usd for one in used if one.requests]
    cost = None if None in prices else math.fsum(filter(None, prices))
    usage = Usage(
        requests=sum(one.requests for one in used),
        input_tokens=sum(one.input_tokens for one in used),
        output_tokens=sum(one.output_tokens for one in used),
        cost_usd=cost,
    )
    return [answers.get(item) for item in items], usage


def compare_arms(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Print each arm's agreement with people, and its difference to the first arm."""
    referenced = sum(bool(row.get("reference")) for row in rows)
    found: dict[str, tuple[list[int | None], Usage]] = {}
    for name in options.arms:
        if name == "reference" and referenced < len(rows):
            print(f"{name}: left out: {len(rows) - referenced} of {len(rows)} pairs have no reference")
            continue
        found[name] = ask(rows, name, options)
    both = [n for n in range(len(rows)) if all(grades[n] in GRADES for grades, _ in found.values())]
    if not both:
        raise SystemExit("no pair has a grade in every arm")
    people = [float(rows[n]["human"] >= RELEVANT) for n in both]
    verdicts = [[float((grades[n] or 0) >= RELEVANT) for n in both] for grades, _ in found.values()]
    queries = [rows[n]["qid"] for n in both]
    print(f"{len(both)} of {len(rows)} pairs have a grade in every arm")
    print(
        f"{'arm':16}{'kappa 2':>8} {'kappa 4':>8}   equal less {next(iter(found))}, 95%, p{'':16}requests   tokens in + out   price"
    )
    equal = (np.array(verdicts) == np.array(people)).astype(float)
    for at, (name, (grades, usage)) in enumerate(found.items()):
        four = kappa(Counter((grades[n] or 0, rows[n]["human"]) for n in both))
        line = paired_difference(equal[0], equal[at], clusters=queries, value_range=(0.0, 1.0))
        ends, of_two = line.interval.ends, cohen_kappa(confusion(verdicts[at], people))
        less = (
            f"{line.difference:+.3f} ({ends[0]:+.3f} to {ends[1]:+.3f}) {line.p:.3f}" if ends and at else ""
        )
        price = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        two = "-" if of_two is None else f"{of_two:.3f}"
        tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,}"
        print(f"{name:16}{two:>8} {four:8.3f}   {less:36} {usage.requests:9} {tokens:>17}   {price}")


def read_report(folder: Path) -> list[Row]:
    """The passages of a report that people labelled, as pairs; of several people the lower median."""
    report = Report.open(folder)
    book, rows = LabelBook(report.labels()), {}
    for sample in report.samples():
        for context in sample.retrieved():
            item = Relevance(query=sample.query, passage=context.text).item
            if (label := book.get(item)) is not None and label.scale == "graded":
                row = {
                    "qid": sample.id,
                    "query": sample.query,
                    "passage": context.text,
                    "human": label.answer,
                }
                rows[item] = {**row, "reference": sample.reference, "judges": {}}
    if not rows:
        raise SystemExit(f"{folder}: nobody graded a passage of this report (germane label)")
    return list(rows.values())


def timed(rows: Sequence[Row]) -> tuple[list[int], float]:
    """The rule's grades, and how many it gave a second of CPU."""
    started = time.process_time()
    grades = lexical_grades(rows)
    return grades, len(rows) / (time.process_time() - started)


def tuned_on(rows: Sequence[Row]) -> set[str]:
    """Every second query, in an order that nobody chose."""
    return set(
        sorted({row["qid"] for row in rows}, key=lambda q: hashlib.sha256(q.encode()).hexdigest())[::2]
    )


def models(rows: Sequence[Row]) -> Iterator[Agreement]:
    for name in sorted({name for row in rows for name in row["judges"]}):
        yield agreement(name, [row["judges"].get(name) for row in rows], rows)


def lexical(rows: Sequence[Row], grades: Sequence[int]) -> Iterator[Agreement]:
    half = tuned_on(rows)
    for name, kept in (("lexical", {True, False}), ("  tuned on", {True}), ("  held out", {False})):
        some = [(g, row) for g, row in zip(grades, rows, strict=True) if (row["qid"] in half) in kept]
        if some:  # a part of the data may have no query of that half
            yield agreement(name, [g for g, _ in some], [row for _, row in some])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "pairs", type=Path, help="pairs.jsonl(.gz) of the LLMJudge challenge, or a labelled report"
    )
    parser.add_argument("--judge", help="measure this judge too, e.g. openai:gpt-4o-mini")
    parser.add_argument("--limit", type=int, help="so many pairs, drawn at random")
    parser.add_argument("--max-cost", type=float, help="US dollars at most")
    parser.add_argument("--ledger", type=Path, default=Path("judge_agreement.sqlite"))
    parser.add_argument("--base-url", help="an OpenAI-compatible endpoint for the judge")
    parser.add_argument(
        "--arms",
        type=lambda text: text.split(","),
        default=["fused"],
        help=f"of {','.join(ARMS)}; the first is the baseline",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.arms if name not in ARMS]:
        parser.error(f"there is no arm {unknown[0]!r}; there are {', '.join(ARMS)}")
    rows = read_report(options.pairs) if options.pairs.is_dir() else read_pairs(options.pairs)
    if options.limit and options.limit < len(rows):
        rows = random.Random(1).sample(rows, options.limit)
    people = sum(row["human"] >= RELEVANT for row in rows) / len(rows)
    print(
        f"{len(rows)} pairs of {len({row['qid'] for row in rows})} queries; people call {people:.3f} relevant"
    )
    grades, first = timed(rows)
    stems.cache_clear()
    _, again = timed(rows)
    print(
        f"lexical: {first:,.0f} verdicts a second of CPU from a cold start, {again:,.0f} once most words were seen"
    )
    print(f"\n{'judge':26}{'n':>6} {'excluded':>8} {'kappa 2':>7} {'95%':>12} {'kappa 4':>8} {'relevant':>9}")
    for line in lexical(rows, grades):
        print(line)
    print()
    if options.judge:
        compare_arms(rows, options)
        print()
    for line in sorted(models(rows), key=lambda a: -a.two):
        print(line)


if __name__ == "__main__":
    main()
