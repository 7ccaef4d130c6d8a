"""How well gold is carried to other chunks: Python's own documentation, cut at 40, 80 and 200 words.

    python -m benchmarks moving [--quick]

Gold is the chunk that holds a quote. Carried by quotes it is held against gold found anew in the new chunks; carried by the text of
the old chunk alone, what is not certain makes bounds, which must hold the true value. Lists are drawn at random, half of them with the
true chunk in them.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from germane import evaluate
from germane.encoding import encode
from germane.labelling.corpus import Corpus, move_labels
from germane.samples import samples_from

SIZES = (40, 80, 200)
MEASURES = ("R@5", "nDCG@5", "RR@5", "AP@5")


def main(*, quick: bool = False, peers: Sequence[str] = ()) -> None:
    """Cut, carry, compare, print."""
    del peers
    queries, draws = (60, 4) if quick else (300, 34)  # of each of six pairs of sizes
    chunks = {size: _chunks(size) for size in SIZES}
    print(
        f"{len(topics)} pages; chunks: {', '.join(f'{len(found):,} of {size} words' for size, found in chunks.items())}"
    )
    whole = "\n".join(" ".join(text.split()) for text in topics.values())
    for old, new in permutations(SIZES, 2):
        rng = random.Random(7)
        rows, anew = [], []
        for number in range(queries):
            page, at = _quote(rng)
            quote = " ".join(page[at : at + 12])
            old_gold = [name for name, text in chunks[old].items() if quote in text]
            new_gold = [name for name, text in chunks[new].items() if quote in text]
            if not old_gold:  # cut in two
                continue
            if whole.count(quote) > 1:  # an ambiguous quote is no gold
                continue
            contexts = [{"id": name, "text": chunks[old][name]} for name in old_gold]
            rows.append(
                {
                    "id": f"q{number}",
                    "query": "a",
                    "qrels": dict.fromkeys(old_gold, 1),
                    "contexts": contexts,
                    "quote": quote,
                }
            )
            anew.append(set(new_gold))
        with tempfile.TemporaryDirectory() as folder:
            corpus = Corpus(_written(chunks[new], Path(folder) / "corpus.jsonl"))
            began = time.process_time()
            quoted, moved = move_labels(
                [*samples_from([{**_plain(row), "evidence": [{"quote": row["quote"]}]} for row in rows])],
                corpus,
            )
            by_text, of_text = move_labels([*samples_from(map(_plain, rows))], corpus)
            spent = time.process_time() - began
        same = sum(set(one.qrels or ()) == gold for one, gold in zip(quoted, anew, strict=True) if gold)
        held, width = _bounds(by_text, anew, list(chunks[new]), draws, rng)
        print(
            f"{old:>3} -> {new:>3} words: {same} of {sum(map(bool, anew))} quotes as found anew ({same / sum(map(bool, anew)):.1%}), "
            f"{len(moved.lost)} lost; by text {of_text.carried} carried, {of_text.unsure} unsure, {len(of_text.lost)} lost; "
            f"bounds hold the true mean in {held} of {draws} draws, mean width {width:.3f}; {spent:.1f} s CPU"
        )


def _bounds(
    samples: Sequence[Any], anew: Sequence[set[str]], names: list[str], draws: int, rng: random.Random
) -> tuple[int, float]:
    """In how many draws of lists the bounds of every measure's mean hold the true one, and how wide they are."""
    held, widths = 0, []
    known = [(sample, gold) for sample, gold in zip(samples, anew, strict=True) if gold]
    for _ in range(draws):
        some = rng.sample(known, min(20, len(known)))
        moved, true = [], []
        for sample, gold in some:
            near = [*gold, *(sample.unsure or ()), *(sample.qrels or ())]
            ids = list(
                dict.fromkeys([*(name for name in near if rng.random() < 0.5), *rng.sample(names, 5)])
            )[:6]
            rng.shuffle(ids)
            row = {"id": sample.id, "query": "a", "contexts": [{"id": name, "text": name} for name in ids]}
            moved.append({**row, "qrels": dict(sample.qrels or {}), "unsure": dict(sample.unsure or {})})
            true.append({**row, "qrels": dict.fromkeys(gold, 1)})
        bounded, exact = evaluate(moved, " ".join(MEASURES)), evaluate(true, " ".join(MEASURES))
        inside = True
        for name in MEASURES:
            low, high = bounded[name].mean_bounds or (bounded[name].mean, bounded[name].mean)
            inside &= low - 1e-9 <= exact[name].mean <= high + 1e-9
            widths.append(high - low)
        held += inside
    return held, sum(widths) / len(widths)


def _chunks(size: int) -> dict[str, str]:
    found = {}
    for page, text in topics.items():
        words = text.split()
        for number, at in enumerate(range(0, len(words), size)):
            found[f"{page}#{number}"] = " ".join(words[at : at + size])
    return found


def _quote(rng: random.Random) -> tuple[list[str], int]:
    while True:
        page = topics[rng.choice(sorted(topics))].split()
        if len(page) > 400:
            return page, rng.randrange(len(page) - 12)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "quote"}


def _written(chunks: dict[str, str], path: Path) -> Path:
    with path.open("wb") as file:
        file.writelines(encode({"id": name, "text": text}) + b"\n" for name, text in chunks.items())
    return path


if __name__ == "__main__":
    main()
