"""A small retrieval-augmented system to evaluate: BM25 over corpus/passages.jsonl, and an answer quoted from what it found.

No model, no network, no library, the same output every time. It exists in two qualities: `good` indexes title and text,
`worse` indexes the titles alone, as a careless change to an indexing job might. Three ways to use it:

    python rag_system.py "Why are there two high tides a day?"        a person reads the answer
    python rag_system.py --output OUT.json "PROMPT"                   a command-line target (targets.yaml: rag_cli)
    from rag_system import answer                                     a Python target (targets.yaml: bm25, bm25_worse)
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parent / "corpus" / "passages.jsonl"
QUALITIES = ("good", "worse")
TOP_K = 5
Passage = dict[str, str]
Hit = dict[str, Any]


class Index:
    """The corpus behind a BM25 index (k1 = 1.5, b = 0.75, as Lucene weighs it); `worse` sees the titles only."""

    def __init__(self, quality: str) -> None:
        lines = CORPUS.read_text(encoding="utf-8").splitlines()
        self.passages: list[Passage] = [json.loads(line) for line in lines if line.strip()]
        indexed = [p["title"] if quality == "worse" else f"{p['title']}\n{p['text']}" for p in self.passages]
        self._counts = [Counter(_tokens(text)) for text in indexed]
        self._lengths = [count.total() for count in self._counts]
        self._mean = sum(self._lengths) / len(self._lengths)
        self._holding = Counter(word for count in self._counts for word in count)

    def search(self, query: str, top_k: int = TOP_K) -> list[Hit]:
        """The best passages, best first; one that shares no word with the query is not returned."""
        words = _tokens(query)
        scores = [sum(self._weight(word, i) for word in words) for i in range(len(self.passages))]
        order = sorted(range(len(self.passages)), key=lambda i: (-round(scores[i], 6), i))[:top_k]
        return [
            {"id": self.passages[i]["id"], "text": self.passages[i]["text"], "score": round(scores[i], 4)}
            for i in order
            if scores[i] > 0
        ]

    def _weight(self, word: str, place: int) -> float:
        count, holding = self._counts[place][word], self._holding[word]
        idf = math.log(1 + (len(self.passages) - holding + 0.5) / (holding + 0.5))
        return idf * count / (count + 1.5 * (0.25 + 0.75 * self._lengths[place] / self._mean))


STOP_WORDS = frozenset(
    (  # those of Lucene
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on", "or",
        "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
    )
)  # fmt: skip


def _tokens(text: str) -> list[str]:
    return [word for word in re.findall(r"\b\w\w+\b", text.lower()) if word not in STOP_WORDS]


@functools.cache
def index(quality: str) -> Index:
    return Index(quality)


def compose(query: str, hits: list[Hit], sentences: int = 2) -> str:
    """The sentences of the two best passages that share most words with the query, in their order."""
    wanted = set(_tokens(query))
    found = [s for hit in hits[:2] for s in re.split(r"(?<=[.!?])\s+", hit["text"])]
    overlap = [len(wanted & set(_tokens(sentence))) for sentence in found]
    best = sorted(sorted(range(len(found)), key=lambda i: (-overlap[i], i))[:sentences])
    return " ".join(found[i] for i in best) or "I found nothing about that."


def ask(query: str, quality: str = "good", top_k: int = TOP_K) -> dict[str, Any]:
    hits = index(quality).search(query, top_k)
    return {"response": compose(query, hits), "contexts": hits}


def answer(query: str) -> dict[str, Any]:
    """The system under test, as germane calls it."""
    return ask(query)


def answer_worse(query: str) -> dict[str, Any]:
    """The same system with the poor index, for comparison."""
    return ask(query, "worse")


def as_messages(query: str, found: dict[str, Any]) -> dict[str, Any]:
    """The answer with its search as a tool call: what a command-line target writes."""
    search = {"tool": "search", "input": {"query": query}, "output": {"results": found["contexts"]}}
    message = {"role": "assistant", "content": found["response"], "tool_calls": [search]}
    return {"text": found["response"], "output_messages": [message]}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Answer a question from the example corpus.")
    parser.add_argument("prompt", help="the question")
    parser.add_argument("--output", type=Path, help="write a JSON answer to this file instead of printing")
    parser.add_argument("--quality", choices=QUALITIES, default="good", help="which index to search")
    parser.add_argument(
        "--top-k", type=int, default=TOP_K, help="how many passages to return (default %(default)s)"
    )
    options = parser.parse_args(argv)
    found = ask(options.prompt, options.quality, options.top_k)
    if options.output:
        document = as_messages(options.prompt, found)
        options.output.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return 0
    print(found["response"], end="\n\n")
    for rank, hit in enumerate(found["contexts"], 1):
        print(f"{rank}. {hit['id']:<10} {hit['score']:>6.2f}  {hit['text'][:90]}...")
    return 0


if __name__ == "__main__":
    sys.exit(main())
