"""The components of the variance of a mean: queries, trials of the system, replicas of the judge, and labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.statistics.correction import LabelPilot

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """The variance of one score, split by what it varies over; None where there is one of something, so that it cannot be told.

    A score is a query's mean plus what a trial of the system adds plus what a replica of the judge adds, trials within queries
    and replicas within trials. What cannot be told apart is in the component above: without trials theirs is in `queries`.

    Attributes:
        queries: Variance of the queries' means.
        trials: Variance of trials of one query.
        replicas: Variance of the judge's replicas on one trial.
        labels: Variance of one label's residual within a query, of a corrected mean.
        counts: How many there are: queries, trials per query, replicas per trial, labels per query (means).
    """

    queries: float
    trials: float | None = None
    replicas: float | None = None
    labels: float | None = None
    counts: dict[str, float]
    pilot: LabelPilot | None = None

    @property
    def of_mean(self) -> dict[str, float]:
        """The part of each in the variance of the mean over queries like these; the sum is that variance."""
        n = self.counts
        parts = {"queries": self.queries / n["queries"]}
        if self.trials is not None:
            parts["trials"] = self.trials / (n["queries"] * n["trials"])
        if self.replicas is not None:
            parts["replicas"] = self.replicas / (n["queries"] * n["trials"] * n["replicas"])
        if self.labels is not None:
            parts["labels"] = self._of_labels(n["labels"])
        return parts

    @property
    def one_more(self) -> dict[str, float]:
        """The share by which the variance of the mean falls with one more query, or one more of the others for every query."""
        parts, n = self.of_mean, self.counts
        total = sum(parts.values())
        if not total > 0:
            return {}
        saved = {"queries": total / (n["queries"] + 1)}
        saved |= {name: parts[name] / (n[name] + 1) for name in ("trials", "replicas") if name in parts}
        if "trials" in saved and "replicas" in parts:  # another trial is judged as often
            saved["trials"] += parts["replicas"] / (n["trials"] + 1)
        if "labels" in parts:
            saved["labels"] = parts["labels"] - self._of_labels(n["labels"] + 1)
        return {name: share / total for name, share in saved.items()}

    def _of_labels(self, labels: float) -> float:
        """Variance of the mean from what is not labelled, with this many labels of every query."""
        if self.pilot is None or self.labels is None:
            return 0.0
        sizes = np.array(self.pilot.sizes, float)
        drawn = np.minimum(sizes, labels)
        return float(((1 - drawn / sizes) / drawn).mean()) * self.labels / len(sizes)


def split_variance(
    values: ArrayLike, queries: ArrayLike, trials: ArrayLike, pilot: LabelPilot | None = None
) -> VarianceComponents:
    """Components of variance of scores, by the method of moments for nested designs (Searle, Casella and McCulloch 1992).

    Formula, with bars over what is below: replicas = mean variance within trials; trials = mean variance of the trials' means
    within queries - replicas / R; queries = variance of the queries' means - (trials + replicas / R) / T; none below 0.

    Args:
        values: One score per row, shape (n,); rows of one trial are replicas of the judge.
        queries: The query of each row, at least two.
        trials: The trial of each row, within its query.
        pilot: What labels of people tell, of a corrected mean.
    """
    scores = np.asarray(values, float)
    query = np.unique(np.asarray(queries), return_inverse=True)[1]
    trial = np.unique(
        np.stack([query, np.unique(np.asarray(trials), return_inverse=True)[1]]), axis=1, return_inverse=True
    )[1]
    trial = trial.reshape(-1)
    replicas, each = _within(scores, trial)
    of_trial, first = np.bincount(trial, scores) / np.bincount(trial), np.unique(trial, return_index=True)[1]
    query = query[first]
    noise = (replicas or 0.0) * float((1 / each).mean())
    spread, per_query = _within(of_trial, query)
    between = None if spread is None else max(spread - noise, 0.0)
    of_query = np.bincount(query, of_trial) / per_query
    below = (
        float(((spread or noise) / per_query).mean()) if spread is not None or replicas is not None else 0.0
    )
    counts = {"queries": float(len(of_query)), "trials": _mean(per_query), "replicas": _mean(each)}
    labels = None
    if pilot is not None:
        labels, counts["labels"] = pilot.within, pilot.labels / len(pilot.sizes)
    variance = pilot.between if pilot is not None else max(float(of_query.var(ddof=1)) - below, 0.0)
    return VarianceComponents(
        queries=variance, trials=between, replicas=replicas, labels=labels, counts=counts, pilot=pilot
    )


def _within(values: Floats, groups: NDArray[np.intp]) -> tuple[float | None, Floats]:
    """Pooled variance within groups, None where each holds one; and how many each holds."""
    counts = np.bincount(groups).astype(float)
    free = float((counts - 1).sum())
    if not free:
        return None, counts
    off = values - (np.bincount(groups, values) / counts)[groups]
    return float(np.square(off).sum()) / free, counts


def _mean(counts: Floats) -> float:
    """The harmonic mean: variances are divided by counts."""
    return round(float(1 / (1 / counts).mean()), 9)
