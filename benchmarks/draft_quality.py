"""What a model's drafted questions are like beside people's: keep rates, overlap and rank by BM25, with and without forbidden words.

    python -m benchmarks.draft_quality pairs.jsonl.gz                       # no model: does ease tell easy from hard?
    OPENAI_API_KEY=... python -m benchmarks.draft_quality pairs.jsonl.gz --judge openai:gpt-4o-mini -n 100 -o draft-quality

The file is that of `benchmarks.judge_agreement` (TREC Deep Learning 2023): its passages are the corpus, its 25 queries with the
passages of grade 3 the real questions. With `--judge` two sets are drafted, `direct` (any words) and `paraphrased` (the passage's
longest words forbidden), and 40 of their questions are written to `look-at.txt` for a person. Without it known items of 8 words of
their own passage must read easier than the real queries, and halves of the real queries must not (200 draws, alarms at most 5%);
exit code 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from germane.addons.draft import document
from germane.addons.draft.drafting import Search
from germane.addons.draft.passages import DraftCorpus, Passage

DRAWS, WORDS, MOST_ALARMS, LOOKED_AT = 200, 8, 0.05, 40


def main() -> None:
    """Read the pairs; measure ease, or draft."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--judge")
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("-o", "--output", type=Path, default=Path("draft-quality"))
    options = parser.parse_args()
    with gzip.open(options.pairs, "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    texts = {f"p{n}": text for n, text in enumerate(dict.fromkeys(pair["passage"] for pair in pairs))}
    names = {text: name for name, text in texts.items()}
    gold: dict[str, list[str]] = {pair["query"]: [] for pair in pairs}
    for pair in pairs:
        gold[pair["query"]] += [names[pair["passage"]]] if pair["human"] == 3 else []
    sys.exit(draft(options, texts, gold) if options.judge else measure(texts, gold))


def measure(texts: dict[str, str], gold: dict[str, list[str]]) -> int:
    """Compare known items and halves of the real queries with the real queries."""
    passages = [Passage(name, 0, len(text), text) for name, text in texts.items()]
    search = Search(DraftCorpus("", "dl23", texts, passages, passages, {}))
    real = [document.measured(query, names, search) for query, names in gold.items() if names]
    yardstick = document.summary(real)
    print(
        f"{len(real)} real queries: BM25@1 {yardstick['bm25_at_1']['mean']:.2f}, median overlap {yardstick['overlap_median']:.3f}"
    )
    draw, alarms, missed = random.Random(0), 0, 0
    for _ in range(DRAWS):
        half = draw.sample(real, len(real))
        alarms += (
            document.compared(document.summary(half[::2]), document.summary(half[1::2]))["verdict"]
            is not None
        )
    for seed in range(5):
        draw, known = random.Random(seed), []
        for name in draw.sample(sorted(texts), 50):
            words = sorted(set(texts[name].split()))
            known.append(
                document.measured(" ".join(draw.sample(words, min(WORDS, len(words)))), [name], search)
            )
        result = document.summary(known)
        missed += document.compared(result, yardstick)["verdict"] != "easier than your users'"
        print(f"50 known items of {WORDS} words: BM25@1 {result['bm25_at_1']['mean']:.2f}")
    print(f"halves called different: {alarms} of {DRAWS}; known items not called easier: {missed} of 5")
    return int(alarms > MOST_ALARMS * DRAWS or missed > 0)


def draft(options: argparse.Namespace, texts: dict[str, str], gold: dict[str, list[str]]) -> int:
    """Draft both sets, print what became of them, and write questions to look at."""
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    corpus, like = folder / "corpus.jsonl", folder / "real.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()), "utf-8"
    )
    lines = [
        {"id": f"q{n}", "query": query, "qrels": dict.fromkeys(names, 1)}
        for n, (query, names) in enumerate(gold.items())
    ]
    like.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    drafted: list[dict[str, Any]] = []
    for kind in ("direct", "paraphrased"):
        command = [Path(sys.executable).with_name("germane"), "draft", corpus, "-n", options.n, "--judge", options.judge, "--mix", f"{kind}=1",
                   "--like", like, "-o", folder / kind, "--ledger", folder / "ledger.sqlite", "--json"]  # fmt: skip
        done = subprocess.run(list(map(str, command)), check=False, stdout=subprocess.PIPE, text=True)
        if not done.stdout:
            return done.returncode
        found = json.loads(done.stdout)
        own, real = found["ease"]["drafted"], found["ease"]["like"]
        print(
            f"{kind}: {found['kept']} of {found['attempts']} attempts kept; {found['calls']} calls, cost {found['cost_usd']}"
        )
        print(f"  dropped: {json.dumps(found['dropped'])}")
        print(
            f"  BM25@1 {own['bm25_at_1']['mean']} (real {real['bm25_at_1']['mean']}), overlap {own['overlap_median']} (real {real['overlap_median']})"
        )
        drafted += [
            json.loads(line) for line in (folder / kind / "samples.jsonl").read_text("utf-8").splitlines()
        ]
    looked_at = random.Random(0).sample(drafted, min(LOOKED_AT, len(drafted)))
    (folder / "look-at.txt").write_text(
        "".join(f"{row['query']}\n  {row['reference']}\n" for row in looked_at), "utf-8"
    )
    return 0


if __name__ == "__main__":
    main()
