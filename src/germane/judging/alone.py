"""The ledger of who asks in lists: what happens to be asked alone is kept, and found, as anybody's who asks alone.

Being asked in a list may change an answer, so that it is a part of the key. But a list of one text is no list, and what a
list leaves open is asked by itself: that request is the very same without lists. A lone answer is the better one, so
that it also serves where a list would be asked; never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from germane.judging.ledger import Ledger
from germane.questions.question import Listed
from germane.types import Judgement

__all__ = ["ListedToo"]


class ListedToo:
    """A ledger to which a Listed key is also that of the question asked alone. Whoever uses it sees the Listed one.

    Args:
        ledger: Where the answers are.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """What is known: the answer from a list, so that a run again is the same run, else the lone one."""
        found = self._ledger.get(keys)
        if len(found) < len(keys):
            alone = {key.alone: key for key in keys if isinstance(key, Listed) and key not in found}
            for lone in self._ledger.get(list(alone)).values() if alone else ():
                key = alone[lone.key]
                found[key] = replace(lone, key=key, prompt=key.prompt)
        return found

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Mapping[str, Judgement] | None = None
    ) -> dict[str, Judgement]:
        """Store them, those that no list answered under the key of the question alone."""
        rows = self.rows(judgements)
        useless = {one.key: one for found in (replacing or {}).values() for one in (found, _alone(found))}
        standing = self._ledger.put(rows, replacing=useless)
        stands = {}
        for judgement, row in zip(judgements, rows, strict=True):
            first = standing[row.key]
            own = (
                first
                if first.key == judgement.key
                else replace(first, key=judgement.key, prompt=judgement.prompt)
            )
            stands[judgement.key] = judgement if first is row else own
        return stands

    @staticmethod
    def rows(judgements: Sequence[Judgement]) -> list[Judgement]:
        """As they lie in the ledger, in their order."""
        return [_alone(one) if "list" not in one.provenance else one for one in judgements]

    def ready(self) -> None:
        """LedgerError where nothing can be kept just now."""
        self._ledger.ready()

    def changed(self) -> bool:
        """Whether somebody else has written to it."""
        return self._ledger.changed()

    def close(self) -> None:
        """Release the store."""
        self._ledger.close()


def _alone(judgement: Judgement) -> Judgement:
    """As it lies in the ledger where the question was asked by itself."""
    key = judgement.key
    if not (isinstance(key, Listed) and isinstance(key.prompt, Listed)):
        return judgement
    return replace(judgement, key=key.alone, prompt=key.prompt.alone)
