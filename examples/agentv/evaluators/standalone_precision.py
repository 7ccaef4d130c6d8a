"""Code judge: contextual precision with the standard library alone, to copy and change.

Reads the case (one JSON document) on stdin: `candidate_answer` holds {"retrieved_context": [...]}, ranked. A passage counts
as relevant when it holds `config.share` (default 0.5) of the words of the expected outcome. Prints {score, hits, misses,
reasoning}: the score is the mean of precision@k over the ranks k of relevant passages, 0 where none is relevant.
"""

import json
import re
import sys
from typing import Any

SHARE = 0.5
WORD = re.compile(r"\w{3,}")


def precision(relevant: list[bool]) -> float:
    """Mean of precision@k over the ranks k that hold a relevant passage."""
    found, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            found += 1
            total += found / rank
    return total / found if found else 0.0


def passages(answer: str) -> list[str]:
    """The ranked passages in an answer; [] where it holds none."""
    try:
        document = json.loads(answer)
    except ValueError:
        return []
    listed = document.get("retrieved_context", []) if isinstance(document, dict) else []
    return [one["text"] if isinstance(one, dict) else str(one) for one in listed]


def is_relevant(passage: str, expected: str, share: float) -> bool:
    """Whether a passage holds enough of the expected outcome's words."""
    wanted = set(WORD.findall(expected.lower()))
    return bool(wanted) and len(wanted & set(WORD.findall(passage.lower()))) >= share * len(wanted)


def grade(case: dict[str, Any]) -> dict[str, Any]:
    """The result of one case."""
    found = passages(case.get("candidate_answer") or "")
    if not found:
        return {"score": 0, "misses": ["No retrieved context found in candidate answer"]}
    share = float((case.get("config") or {}).get("share", SHARE))
    relevant = [is_relevant(passage, case.get("expected_outcome") or "", share) for passage in found]
    score = precision(relevant)
    places = list(enumerate(zip(found, relevant, strict=True), 1))
    below = relevant.index(False) + 1 if False in relevant else len(relevant) + 1
    return {
        "score": score,
        "hits": [f"Position {rank}: {text[:60]}" for rank, (text, yes) in places if yes],
        "misses": [f"Position {rank}: Not relevant" for rank, (_, yes) in places if not yes]
        + [
            f"Position {r}: Relevant but ranked below irrelevant ones"
            for r, (_, y) in places
            if y and r > below
        ],
        "reasoning": f"{sum(relevant)}/{len(relevant)} passages relevant, precision score: {score:.2f}",
    }


if __name__ == "__main__":
    print(json.dumps(grade(json.load(sys.stdin))))
