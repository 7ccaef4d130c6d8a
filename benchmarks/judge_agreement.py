"""How far judges agree with people: the lexical rule, and the language models of the LLMJudge challenge.

    python -m benchmarks.judge_agreement pairs.jsonl.gz
    OPENAI_API_KEY=... python -m benchmarks.judge_agreement pairs.jsonl.gz --judge openai:gpt-4o-mini

With `--judge` germane's own prompts are measured on the model that is named, in one evaluation: answers are kept in a
ledger, so a second call costs nothing; `--limit N` takes N pairs drawn at random (seed 1).

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
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from germane import Context, Sample, evaluate
from germane.judges.lexical import LexicalJudge
from germane.questions import Relevance
from germane.questions.text import stems

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


def model_grades(rows: Sequence[Row], judge: str, ledger: Path, max_cost: float | None) -> list[int | None]:
    """The grades that a judge gives through a plain evaluation; None where it gave none."""
    samples = [
        Sample(id=str(n), query=row["query"], contexts=(Context(text=row["passage"]),))
        for n, row in enumerate(rows)
    ]
    report = evaluate(
        samples,
        "P(labels=judge)@1",
        judge=judge,
        against="query",
        ledger=ledger,
        max_cost=max_cost,
        max_unmeasured=1.0,
    )
    grade_of = {one.item: one.answer["grade"] for one in report.judgements() if one.error is None}
    item_of = {row.sample: row.item for row in report.items()}
    return [grade_of.get(item_of.get(sample.id, "")) for sample in samples]


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
    parser.add_argument("pairs", type=Path, help="pairs.jsonl or pairs.jsonl.gz of the LLMJudge challenge")
    parser.add_argument("--judge", help="measure this judge too, e.g. openai:gpt-4o-mini")
    parser.add_argument("--limit", type=int, help="so many pairs, drawn at random")
    parser.add_argument("--max-cost", type=float, help="US dollars at most")
    parser.add_argument("--ledger", type=Path, default=Path("judge_agreement.sqlite"))
    options = parser.parse_args()
    rows = read_pairs(options.pairs)
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
    if options.judge:
        print(
            agreement(
                options.judge, model_grades(rows, options.judge, options.ledger, options.max_cost), rows
            )
        )
    print()
    for line in sorted(models(rows), key=lambda a: -a.two):
        print(line)


if __name__ == "__main__":
    main()
