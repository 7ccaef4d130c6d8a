"""Labels drawn by strata of the judge's verdict: germane drew such once, and still reads and weights them."""

from functools import cached_property
from typing import Any

import numpy as np

from germane.labelling.queue import DrawnTask, LabelQueue
from germane.types import FrozenDict


class StratifiedQueue(LabelQueue):
    """A random draw in proportion to the strata, with the design that was stored."""

    def __post_init__(self) -> None:
        """No check: `stratified` is no queue that can be drawn any more."""

    @cached_property
    def drawn(self) -> list[DrawnTask]:
        strata = np.array([int(task.verdict) for task in self.tasks])
        places: list[tuple[int, int]] = []  # which of its stratum, which task
        for stratum in np.unique(strata):
            shuffled = np.random.default_rng([self.seed, stratum]).permutation(
                np.flatnonzero(strata == stratum)
            )
            places += [
                ((2 * n + 1) * len(self.tasks) // len(shuffled), int(p)) for n, p in enumerate(shuffled)
            ]
        chosen = [place for _, place in sorted(places)][: self.size]
        taken, sizes = np.bincount(strata[chosen], minlength=4), np.bincount(strata, minlength=4)
        return [DrawnTask(self.tasks[place], self._design(strata[place], taken, sizes)) for place in chosen]

    def _design(self, stratum: int, taken: Any, sizes: Any) -> FrozenDict:
        known = {"design": self.design, "seed": self.seed, "budget": self.size}
        chance = float(taken[stratum] / sizes[stratum])
        return FrozenDict(
            known | {"probability": chance, "stratum": str(stratum), "size": int(sizes[stratum])}
        )


def queue_of(**how: Any) -> LabelQueue:
    """A queue, also of the kind that is drawn no more."""
    return (StratifiedQueue if how.get("queue") == "stratified" else LabelQueue)(**how)
