"""Checks of test sets on sets with planted faults: `python -m benchmarks.test_sets FOLDER TREC`.

FOLDER holds the LLMJudge challenge's data on TREC Deep Learning 2023 (see corrected_means.py), TREC the test files of trec_eval.
Queries and passages are cut into two halves. Sets made of the first choose each threshold: the one that finds most planted
faults among those with the fewest false alarms. What is printed is what the thresholds of the code do on sets of the second
half, and how many false alarms there are on trec_eval's own files.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from germane.judges.lexical import coverage, terms
from germane.labelling.testset import checks, questions
from germane.labelling.testset.reading import TestQuery, TestSet
from germane.questions.text import sentences, stems, words

SETS = 60
EXAMPLE = Path(__file__).parents[1] / "examples" / "rag-evaluation"
TEMPLATES = (
    "what is the population of {a}", "how tall is {a}", "when was {a} founded", "who wrote about {a} in {y}", "is {a} safe in winter",
    "is {a} not safe in winter", "flights from {a} to {b}", "what was the revenue of {a} in {y}", "difference between {a} and {b}",
    "how do I get to {a}", "what is the meaning of the word {w}", "can I use {w} without {v}", "can I use {w} with {v}",
)  # fmt: skip


@dataclass
class Half:
    """Half of the queries, with the passages judged for them: grade by query and passage."""

    queries: Mapping[str, str]
    passages: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


def halves(folder: Path) -> list[Half]:
    with gzip.open(folder / "pairs.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    names = sorted({row["qid"] for row in rows})
    random.Random(0).shuffle(names)
    result = []
    for some in (set(names[::2]), set(names[1::2])):
        mine = [row for row in rows if row["qid"] in some]
        grades: dict[str, dict[str, int]] = defaultdict(dict)
        for row in mine:
            grades[row["qid"]][row["pid"]] = row["human"]
        result.append(
            Half(
                {row["qid"]: row["query"] for row in mine},
                {row["pid"]: row["passage"] for row in mine},
                grades,
            )
        )
    return result


# repeated questions


def slip(text: str, rng: random.Random) -> str:
    """One letter less, more, other, or two swapped, in a word of eight letters or more."""
    listed = text.split()
    long = [at for at, word in enumerate(listed) if len(word) >= 8 and word.isalpha()]
    if not long:
        return text
    at = rng.choice(long)
    word, place = listed[at], rng.randrange(1, len(listed[at]) - 1)
    listed[at] = rng.choice(
        (
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
            word[:place] + "x" + word[place + 1 :],
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
        )
    )
    return " ".join(listed)


VARIANTS: Mapping[str, Callable[[str, random.Random], str]] = {
    "case": lambda text, _: text.upper(),
    "punctuation": lambda text, rng: rng.choice(("{}?", "{} ?!", "\u201c{}\u201d", "{}...")).format(
        text.rstrip("?")
    ),
    "courtesy": lambda text, rng: rng.choice(
        ("please, {}", "Hi, can you tell me {}", "{} please", "I would like to know {}")
    ).format(text),
    "articles": lambda text, _: (
        re.sub(r"\b(the|a|an) ", "", text) if re.search(r"\b(the|a|an) ", text) else f"the {text}"
    ),
    "slip": slip,
}


def questions_of(half: Half, rng: random.Random, count: int) -> list[str]:
    """Different questions: people's, and templates in which a name, a number or a word like `not` is what differs."""
    names, plain = list[str](), list[str]()
    for text in rng.sample(sorted(half.passages.values()), 200):
        names += re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}", text)
        plain += re.findall(r"(?<= )[a-z]{5,}(?= )", text)
    made = set(half.queries.values())
    while len(made) < count:
        a, b, w, v = *rng.sample(sorted(set(names)), 2), *rng.sample(sorted(set(plain)), 2)
        made.add(rng.choice(TEMPLATES).format(a=a, b=b, w=w, v=v, y=rng.randrange(1990, 2026)))
    return sorted(made)


def repeats_in(half: Half, seed: int, shortest: int) -> tuple[Counter[str], Counter[str]]:
    """Planted repeats by variant, those that were found, and under "false" the different questions taken for one."""
    rng = random.Random(seed)
    asked = questions_of(half, rng, 150)
    planted, found = Counter[str](), Counter[str]()
    texts, kinds = list(asked), [""] * len(asked)
    origin = list(range(len(asked)))
    for at in rng.sample(range(len(asked)), 15):
        for kind, change in VARIANTS.items():
            if (text := change(asked[at], rng)) != asked[at]:
                texts.append(text)
                kinds.append(kind)
                origin.append(at)
    for group in questions.repeated([TestQuery("", text) for text in texts], shortest=shortest):
        first = Counter(origin[at] for at in group).most_common(1)[0][0]
        found.update(kinds[at] for at in group if kinds[at] and origin[at] == first and first in group)
        found["false"] += len({origin[at] for at in group}) - 1
    planted.update(filter(None, kinds))
    planted["false"] = len(asked)
    return planted, found


# copied questions


def copied_from(text: str, rng: random.Random) -> dict[str, str]:
    """Questions made of a passage's own words."""
    result, listed = {}, text.split()
    for size in (8, 12):
        if len(listed) > size + 2:
            at = rng.randrange(len(listed) - size)
            result[f"{size} words in a row"] = f"what about {' '.join(listed[at : at + size])}"
    whole = [sentence for sentence in sentences(text) if 8 <= len(words(sentence)) <= 25]
    if whole:
        chosen = rng.choice(whole)
        result["a sentence"] = f"is it true that {chosen}"
        kept = [word for word, _ in terms(chosen).values()][:10]
        rng.shuffle(kept)
        if len(kept) >= 8:
            result["8 to 10 words in another order"] = f"how {' '.join(kept)}"
    return result


def example(half: Half) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Half of the questions of the shipped example, each with its gold passages, and all its passages."""
    data = TestSet([EXAMPLE / "evals" / "retrieval-set.jsonl"], corpus=EXAMPLE / "corpus")
    texts = [(query.text, [data.texts[name] for name in query.gold]) for query in data.queries if query.gold]
    return texts[len(half.queries) % 2 :: 2], list(data.rest)


def leaks_in(half: Half, seed: int) -> list[tuple[str, questions.PassageOverlap]]:
    """The overlap of each honest ("honest") and each copied question, by the way in which it was made."""
    rng = random.Random(seed)
    asked: list[tuple[str, str, list[str]]] = []
    for query, text in half.queries.items():
        relevant = [half.passages[name] for name, grade in half.grades[query].items() if grade >= 2]
        asked += [("honest", text, relevant), ("honest", text, [rng.choice(relevant)])] if relevant else []
    for text in rng.sample(sorted(set(half.passages.values())), 30):
        asked += [(kind, question, [text]) for kind, question in copied_from(text, rng).items()]
    own, corpus = example(half)
    asked += [("honest, written for the corpus", text, texts) for text, texts in own]
    made = questions.overlaps(
        [text for _, text, _ in asked], [texts for _, _, texts in asked], [*half.passages.values(), *corpus]
    )
    return [(kind, overlap) for (kind, _, _), overlap in zip(asked, made, strict=True)]


# gold of one system


def systems_of(half: Half, rng: np.random.Generator) -> dict[str, dict[str, list[str]]]:
    """Rankings of two to four systems: words in common, people's grades and noise, mixed at random."""
    result: dict[str, dict[str, list[str]]] = {}
    for number in range(rng.integers(2, 5)):
        word, grade, noise = rng.uniform(0, 1), rng.uniform(0, 0.6), rng.uniform(0.1, 0.8)
        result[f"s{number}"] = {}
        for query, graded in half.grades.items():
            needed, names = terms(half.queries[query]), list(graded)
            value = [
                word * coverage(needed, stems(half.passages[name])) + grade * graded[name] / 3
                for name in names
            ] + noise * rng.normal(size=len(names))
            result[f"s{number}"][query] = [names[at] for at in np.argsort(-value)[:100]]
    return result


def shares_of(half: Half, seed: int, *, pool: str) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """By depth: the share of the gold in the first places of the best system, and of the others."""
    rng = np.random.default_rng(seed)
    systems = systems_of(half, rng)
    depth = int(rng.choice([5, 10, 20]))
    labelled = systems if pool == "all" else {"s0": systems["s0"]}
    queries = []
    for query, graded in half.grades.items():
        seen = {name for ranking in labelled.values() for name in ranking[query][:depth]}
        gold = [name for name in seen if graded[name] >= 2]
        if pool == "one passage":  # as of questions written for one passage each
            gold = [min((name for name in graded if graded[name] >= 2), default="")]
        made = TestQuery(query, gold=dict.fromkeys(filter(None, gold)))
        for system, rankings in systems.items():
            made.ranks[system] = {
                name: rank for rank, name in enumerate(rankings[query], 1) if name in made.gold
            }
        queries.append(made)
    for of_system in checks.shares_by_depth(queries, systems.keys()).values():
        best = max(of_system, key=lambda system: of_system[system].mean())
        yield of_system[best], [share for system, share in of_system.items() if system != best]


def rate(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.1%} of {len(values)}"


def choose(results: Mapping[tuple[Any, ...], tuple[float, float]]) -> tuple[Any, ...]:
    """The thresholds with the fewest false alarms, of these those that find most; of equals the one in the middle."""
    fewest = min(alarms for _, alarms in results.values())
    most = max(found for found, alarms in results.values() if alarms == fewest)
    equal = sorted(key for key, value in results.items() if value[1] == fewest and value[0] >= most - 1e-4)
    print("   equal:", *equal)
    return equal[len(equal) // 2]


def choose_soonest(results: Mapping[tuple[Any, ...], tuple[float, float]]) -> tuple[Any, ...]:
    """The same, of equals the one with the lowest share of the gold, and of these the largest lead."""
    best = results[choose(results)]
    equal = [key for key, value in results.items() if value == best]
    return min(equal, key=lambda key: (key[0], -key[1]))


def tune_repeats(first: Half, second: Half) -> None:
    def of_repeats(half: Half, shortest: int) -> tuple[Counter[str], Counter[str]]:
        made = [repeats_in(half, seed, shortest) for seed in range(SETS)]
        return sum((one for one, _ in made), Counter()), sum((one for _, one in made), Counter())

    results = {}
    for shortest in (4, 5, 6, 7, 8):
        planted, found = of_repeats(first, shortest)
        right = (sum(found.values()) - found["false"]) / (sum(planted.values()) - planted["false"])
        results[(shortest,)] = right, found["false"] / planted["false"]
    print("duplicates: chosen", choose(results), "in the code", questions.SHORTEST)
    planted, found = of_repeats(second, questions.SHORTEST)
    for kind in planted:
        print(f"  {kind}: {found[kind] / planted[kind]:.2%} of {planted[kind]}")


def tune_leaks(first: Half, second: Half) -> None:
    made = [one for seed in range(SETS // 3) for one in leaks_in(first, seed)]
    results = {}
    for values in itertools.product((5, 6, 7, 8), (0.5, 0.6, 0.65, 0.7, 0.75), (0.8, 0.9, 1.0), (6, 7, 8, 9)):
        said = [(kind, overlap.copied(*values)) for kind, overlap in made]
        results[values] = (
            float(np.mean([value for kind, value in said if "honest" not in kind])),
            float(np.mean([value for kind, value in said if "honest" in kind])),
        )
    in_code = (questions.RUN, questions.PART, questions.SHARE, questions.ENOUGH)
    print("leaks: chosen", choose(results), "in the code", in_code)
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for seed in range(SETS // 3):
        for kind, overlap in leaks_in(second, seed):
            by_kind[kind].append(overlap.copied())
    for kind, answers in by_kind.items():
        print(f"  {kind}: {rate(answers)}")


def tune_systems(first: Half, second: Half) -> None:
    pools = ("one", "all", "one passage")

    made = [
        {pool: [list(shares_of(half, seed, pool=pool)) for seed in range(SETS)] for pool in pools}
        for half in (first, second)
    ]

    def alarms(half: int, *limits: float) -> dict[str, list[bool]]:
        return {
            pool: [any(checks.one_sided(best, others, *limits) for best, others in depths) for depths in sets]
            for pool, sets in made[half].items()
        }

    results = {}
    for limits in itertools.product((0.9, 0.92, 0.94, 0.96, 0.98, 1.0), (0.0, 0.05, 0.1, 0.2, 0.3)):
        said = alarms(0, *limits)
        results[limits] = float(np.mean(said["one"])), float(np.mean(said["all"] + said["one passage"]))
    print("one-system gold: chosen", choose_soonest(results), "in the code", (checks.FOUND, checks.AHEAD))
    for pool, answers in alarms(1, checks.FOUND, checks.AHEAD).items():
        print(f"  gold of {pool}: {rate(answers)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("trec", type=Path)
    chosen = parser.parse_args()
    first, second = halves(chosen.folder)
    tune_repeats(first, second)
    tune_leaks(first, second)
    tune_systems(first, second)
    spread(second)
    trec(chosen.trec)


def spread(half: Half) -> None:
    """The standard deviation of P@10 between queries, and of its difference between two systems."""
    values, changes = [], []
    for seed in range(SETS):
        systems = list(systems_of(half, np.random.default_rng(seed)).values())
        scores = [
            np.array(
                [
                    np.mean([half.grades[query][name] >= 2 for name in ranking[:10]])
                    for query, ranking in system.items()
                ]
            )
            for system in systems
        ]
        values += [float(score.std(ddof=1)) for score in scores]
        changes.append(float((scores[0] - scores[1]).std(ddof=1)))
    print(f"spread of P@10: {np.median(values):.2f}, of its difference {np.median(changes):.2f}")


def trec(folder: Path) -> None:
    """Warnings on trec_eval's own files: none is meant to be there."""
    gold, runs = folder / "qrels.test", [folder / "results.test", folder / "results.trunc"]
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus.jsonl"
        names = sorted({line.split()[2] for line in gold.read_text().splitlines()})
        corpus.write_text(
            "".join(json.dumps({"id": name, "text": f"document {name}"}) + "\n" for name in names)
        )
        for words_ in ([gold], [gold, "--corpus", corpus], [*runs, "--qrels", gold, "--corpus", corpus]):
            said = subprocess.run(
                [sys.executable, "-m", "germane", "validate", *map(str, words_), "--json"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            alarms = [check["name"] for check in json.loads(said)["checks"] if check["status"] == "warning"]
            print("trec_eval's files:", len(alarms), "warnings", *alarms)


if __name__ == "__main__":
    main()
