"""How far judges agree with people: the lexical rule, and the language models of the LLMJudge challenge.

    python benchmarks/judge_agreement.py pairs.jsonl.gz

The file is the LLMJudge challenge's data on TREC Deep Learning 2023, one pair a line:

    {"qid": "q1", "query": "...", "passage": "...", "human": 2, "judges": {"model": 1, ...}}

Grades run from 0 to 3 and count as relevant from 2. A judge's grade outside that scale is excluded from its
agreement and counted. The rule's thresholds were chosen on the pairs of half the queries ("tuned on"); the
other half was held out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from germane.judging.judges.lexical import LexicalJudge
from germane.judging.questions import Relevance
from germane.judging.text import stems

Row: TypeAlias = dict[str, Any]
GRADES, RELEVANT = range(4), 2


@dataclass(frozen=True, slots=True)
class Agreement:
    """One judge against people: pairs counted, out of scale, kappa on two and on four grades, share relevant."""

    judge: str
    n: int
    excluded: int
    two: float
    four: float
    relevant: float

    def __str__(self) -> str:
        numbers = f"{self.n:6} {self.excluded:8} {self.two:7.3f} {self.four:7.3f} {self.relevant:9.3f}"
        return f"{self.judge:26}{numbers}"


def kappa(pairs: Sequence[tuple[int, int]]) -> float:
    """Cohen's kappa: agreement beyond what the two shares alone would give."""
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / len(pairs)
    expected = sum(first[grade] * second[grade] for grade in first) / len(pairs) ** 2
    return (observed - expected) / (1 - expected) if expected < 1 else 0.0


def agreement(judge: str, grades: Sequence[int | None], people: Sequence[int]) -> Agreement:
    """A judge's grades beside people's; what is missing or off the scale is left out and counted."""
    pairs = [(g, p) for g, p in zip(grades, people, strict=True) if g in GRADES and g is not None]
    yes_no = [(int(g >= RELEVANT), int(p >= RELEVANT)) for g, p in pairs]
    share = sum(g for g, _ in yes_no) / len(pairs)
    return Agreement(judge, len(pairs), len(grades) - len(pairs), kappa(yes_no), kappa(pairs), share)


def read_pairs(path: Path) -> list[Row]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def lexical_grades(rows: Sequence[Row]) -> list[int]:
    judge = LexicalJudge()
    questions = [Relevance(query=row["query"], passage=row["passage"]) for row in rows]
    return [int(judge.reply(question).payload["grade"]) for question in questions]


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
    people = [row["human"] for row in rows]
    names = sorted({name for row in rows for name in row["judges"]})
    for name in names:
        yield agreement(name, [row["judges"].get(name) for row in rows], people)


def lexical(rows: Sequence[Row], grades: Sequence[int]) -> Iterator[Agreement]:
    half = tuned_on(rows)
    for name, kept in (("lexical", {True, False}), ("  tuned on", {True}), ("  held out", {False})):
        some = [
            (g, row["human"]) for g, row in zip(grades, rows, strict=True) if (row["qid"] in half) in kept
        ]
        yield agreement(name, [g for g, _ in some], [p for _, p in some])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", type=Path, help="pairs.jsonl or pairs.jsonl.gz of the LLMJudge challenge")
    rows = read_pairs(parser.parse_args().pairs)
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
    print(f"\n{'judge':26}{'n':>6} {'excluded':>8} {'kappa 2':>7} {'kappa 4':>7} {'relevant':>9}")
    for line in lexical(rows, grades):
        print(line)
    print()
    for line in sorted(models(rows), key=lambda a: -a.two):
        print(line)


if __name__ == "__main__":
    main()
