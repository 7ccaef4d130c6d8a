"""Power of `germane audit --again` on LLMJudge: `python -m benchmarks.again FOLDER`.

FOLDER holds the LLMJudge challenge's data on TREC Deep Learning 2023 (see corrected_means.py). A report's stored verdicts are those of
a judge on the first ten passages of 25 queries in four pseudo-systems (the judges' mean grade and noise). 200 of them are drawn and
asked again, those that flip once more, and `compare_answers` decides, as the command does. Printed for DRAWS draws: how often it
says that the judge has changed (`means`: by the shift of P@10 alone), where

1. nothing has changed, and the judge answers as one of a team's variants drawn anew each time: false alarms;
2. the same judge finds, for good, a share of the passages that it called relevant not relevant, so that the mean of P@10 falls by .085;
3. the model behind the judge is another one of the team, with no noise: pairs whose P@10 differs by .05 to .12.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.statistics.agreement import ChangedVerdicts, compare_answers

DRAWS, ASKED, RELEVANT, SHIFT = 1000, 200, 2, 0.085
TEAMS = ("willia-umbrela", "NISTRetrieval-instruct", "h2oloo", "Olz", "TREMA")
PAIRS = (
    ("NISTRetrieval-instruct0", "NISTRetrieval-reason0"),
    ("RMITIR-GPT4o", "RMITIR-llama38b"),
    ("Olz-exp", "Olz-halfbin"),
    ("h2oloo-zeroshot1", "h2oloo-zeroshot2"),
)
Grades = NDArray[np.int64]


def pooled(rows: Sequence[dict[str, Any]], depth: int = 10) -> list[dict[str, Any]]:
    """The judged pairs within the first places of four pseudo-systems, each once."""
    rng, queries = np.random.default_rng(0), defaultdict(list)
    for row in rows:
        queries[row["qid"]].append(row)
    kept = {}
    for noise in (0.3, 0.6, 1.0, 1.5):
        for some in queries.values():
            values = [np.mean([v for v in row["judges"].values() if v is not None]) for row in some]
            order = np.argsort(np.array(values) + noise * rng.normal(size=len(some)))[::-1][:depth]
            kept |= {(some[at]["qid"], some[at]["pid"]): some[at] for at in order}
    return list(kept.values())


def decided(stored: Grades, new: Grades, third: Grades, rng: np.random.Generator) -> ChangedVerdicts:
    """The decision on a draw of verdicts."""
    at = rng.choice(len(stored), ASKED, replace=False)
    before, after, last = stored[at], new[at], third[at]
    effects = (after >= RELEVANT) * 1.0 - (before >= RELEVANT)
    flipped = before != after
    confirmed, back = (flipped & (last == after)).sum(), (flipped & (last == before)).sum()
    return compare_answers({"P@10": effects}, ASKED, int(flipped.sum()), int(confirmed), int(back))


def print_rates(name: str, draw: Callable[[np.random.Generator], ChangedVerdicts]) -> None:
    results = [draw(np.random.default_rng(seed)) for seed in range(DRAWS)]
    shares = [np.mean([result.changed is value for result in results]) for value in (True, False, None)]
    means = np.mean([result.p_of_means <= 0.025 for result in results])
    print(
        f"{name:52} changed {shares[0]:.3f} not {shares[1]:.3f} cannot say {shares[2]:.3f}   means {means:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    with gzip.open(parser.parse_args().folder / "pairs.jsonl.gz", "rt") as file:
        pairs = pooled([json.loads(line) for line in file])
    names = sorted(pairs[0]["judges"])
    grades = {name: np.array([pair["judges"][name] or 0 for pair in pairs]) for name in names}
    print(f"{len(pairs)} verdicts, {ASKED} asked again, {DRAWS} draws")
    for team in TEAMS:
        variants = np.array([grades[name] for name in names if name.startswith(team)])

        def answer(rng: np.random.Generator, variants: Grades = variants) -> Grades:
            picked: Grades = variants[rng.integers(len(variants), size=len(pairs)), np.arange(len(pairs))]
            return picked

        noise = np.mean(
            [
                (variants[one] != variants[two]).mean()
                for one in range(len(variants))
                for two in range(len(variants))
            ]
        )
        print_rates(
            f"1. {team}: {noise:.0%} flip by noise",
            lambda rng, ask=answer: decided(ask(rng), ask(rng), ask(rng), rng),
        )

        def shifted(
            rng: np.random.Generator, ask: Callable[..., Grades] = answer, variants: Grades = variants
        ) -> ChangedVerdicts:
            strict = rng.random(len(pairs)) < SHIFT / (variants >= RELEVANT).mean()
            new, third = (np.where(strict, np.minimum(ask(rng), RELEVANT - 1), ask(rng)) for _ in range(2))
            return decided(ask(rng), new, third, rng)

        print_rates(f"2. {team}: P@10 falls by {SHIFT}", shifted)
    for first, other in PAIRS:
        change = (grades[other] >= RELEVANT).mean() - (grades[first] >= RELEVANT).mean()
        print_rates(
            f"3. {first} -> {other.partition('-')[2]}: {change:+.3f}",
            lambda rng, a=grades[first], b=grades[other]: decided(a, b, b, rng),
        )


if __name__ == "__main__":
    main()
