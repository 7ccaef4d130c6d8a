"""A model that drafts, behind real HTTP: its questions are made of the passage, by rules; faults are planted by the passage's digest."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from zlib import crc32

from germane.types import Json

Planted = Callable[[int, dict[str, Json], str], Json]
"""(a number of the passage, the good candidate, the passage) -> the answer"""
_SENTENCE = re.compile(r"(?<!\w)[A-Z][a-z]+(?:[ \n]+[\w'(),-]+){7,30}\.(?=\s)")
VOICES = (
    "what happens regarding",
    "which rule governs",
    "where does one configure",
    "how should somebody handle",
)


def sentence_of(passage: str) -> str:
    """The first plain sentence of a passage; "" where it has none."""
    found = _SENTENCE.search(passage)
    return found[0] if found else ""


def good(passage: str, avoid: str, form: str) -> dict[str, Json] | None:
    """A candidate without a fault: a question of a few of the sentence's words, the sentence as its answer and quote."""
    sentence = sentence_of(passage)
    if not sentence:
        return None
    forbidden = set(re.findall(r"\w+", avoid.lower()))
    number = crc32(passage.encode())
    names = [
        word
        for word in re.findall(r"[a-z]{4,}", sentence.lower())
        if not any(word[:5] == other[:5] for other in forbidden)
    ]
    chosen = [names[(number >> (4 * n)) % len(names)] for n in range(3)] if names else []
    question = f"{VOICES[number % 4]} {' '.join(dict.fromkeys(chosen))} case {spelt(number)}?"
    if form == "near-miss":
        return {"question": question, "answer": "", "quotes": []}
    quote = " ".join(sentence.split())
    return {"question": question, "answer": quote[0].upper() + quote[1:].lower(), "quotes": [quote]}


def spelt(number: int) -> str:
    """A number in letters, so that no two questions are alike."""
    return " ".join(
        "".join(chr(97 + (number >> shift) % 26) for shift in range(start, start + 20, 5))
        for start in (0, 5, 11)
    )


def author(
    planted: Planted | None = None,
    supports: Callable[[str, Mapping[str, str]], list[int]] | None = None,
    sufficient: Callable[[Mapping[str, str]], bool] | None = None,
) -> Callable[..., Json]:
    """The rule of a server that answers the questions of drafting."""

    def rule(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        del schema
        read = {name: html.unescape(text) for name, text in sections.items()}
        if kind == "draft":
            passage = read["passage"]
            candidate = good(passage, read.get("avoid", ""), read["form"])
            if candidate is None:
                return {"unsuitable": "no plain sentence", "candidates": []}
            answer = {"unsuitable": "", "candidates": [candidate]}
            return planted(crc32(passage.encode()), candidate, passage) if planted else answer
        if kind == "standalone":
            return {"reasoning": "", "standalone": True, "asks": "a rule", "answer": ""}
        if kind == "support":
            claim = read["claims"]
            return {
                "claims": [
                    {
                        "claim": 1,
                        "reasoning": "",
                        "contexts": supports(claim, read) if supports else stating(claim, read),
                    }
                ]
            }
        return {"reasoning": "", "sufficient": sufficient(read) if sufficient else False}

    return rule


def stating(claim: str, sections: Mapping[str, str]) -> list[int]:
    """The numbers of the contexts that hold the claim to the letter, case aside."""
    words = " ".join(claim.removeprefix("1. ").lower().split())
    return [
        int(name.split()[1])
        for name, text in sections.items()
        if name.startswith("context ") and words in " ".join(text.lower().split())
    ]
