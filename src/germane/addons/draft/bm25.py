"""Rank passages by BM25 in numpy, to find the rank of gold and passages that may also answer a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from germane.questions.text import folded

_PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""The characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""
_TERM = re.compile(rf"[{_PAIRED}]+|(?:(?![{_PAIRED}])[^\W_])+")
_UNSPACED = re.compile(f"[{_PAIRED}]")
_K1, _B = 1.2, 0.75


def terms(text: str) -> list[str]:
    """Return the terms of a text: its words of letters and digits, case folded."""
    found: list[str] = []
    for run in _TERM.findall(folded(text)):
        paired = len(run) > 2 and _UNSPACED.match(run)
        found += [run[at : at + 2] for at in range(len(run) - 1)] if paired else [run]
    return found


def is_unspaced(text: str) -> bool:
    """Return True if most letters of a text belong to scripts without spaces between words."""
    return 2 * len(_UNSPACED.findall(text)) > sum(map(str.isalpha, text))


class BM25:
    """An index that scores texts for a query by BM25; the texts are identified by their positions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._of_term: dict[str, int] = {}
        rows, columns, counts, lengths = list[int](), list[int](), list[int](), list[int]()
        for row, text in enumerate(texts):
            bag = Counter(terms(text))
            lengths.append(bag.total())
            for term, count in bag.items():
                columns.append(self._of_term.setdefault(term, len(self._of_term)))
                rows.append(row)
                counts.append(count)
        self.size: int = len(lengths)
        column, n = np.array(columns, np.int64), max(1, len(lengths))
        order = np.argsort(column, kind="stable")
        frequency = np.bincount(column, minlength=len(self._of_term))
        self._starts = np.concatenate([[0], np.cumsum(frequency)])
        idf = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
        length = np.array(lengths, float)
        damped = _K1 * (1 - _B + _B * length / max(1.0, length.mean() if self.size else 1.0))
        self._rows = np.array(rows, np.int64)[order]
        occurrences = np.array(counts, float)[order]
        self._weights = idf[column[order]] * occurrences * (_K1 + 1) / (occurrences + damped[self._rows])

    def __contains__(self, term: str) -> bool:
        return term in self._of_term

    def scores(self, query: str) -> np.ndarray:
        """Return the BM25 score of every text for a query, by position."""
        result = np.zeros(self.size)
        for term in dict.fromkeys(terms(query)):
            if (number := self._of_term.get(term)) is not None:
                span = slice(self._starts[number], self._starts[number + 1])
                result[self._rows[span]] += self._weights[span]
        return result

    def search(self, query: str, k: int) -> list[int]:
        """Return the positions of the `k` best texts (0: all) with a term of the query, best first."""
        scores = self.scores(query)
        among = np.flatnonzero(scores > 0)
        return [int(at) for at in among[np.argsort(-scores[among], kind="stable")][: k or None]]
