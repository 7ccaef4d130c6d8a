"""Corrected means by one peer, in its own environment: run_correction.py PEER draws.npz, JSON on stdout.

The file holds `judged` and `labels` (nan = not labelled), each of shape (estimates, units), and `clusters`, of shape
(units,), all -1 where units are independent. Each peer is called as its documentation says, with its defaults.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout

import numpy as np

SECONDS = 90
"""Time after which no further estimate is started."""
Array = np.ndarray
Estimate = Callable[[Array, Array, "Array | None"], tuple[float, float]]


def cje_eval() -> Estimate:
    from cje import calibrated_mean_ci

    def estimate(judged: Array, labels: Array, clusters: Array | None) -> tuple[float, float]:
        low, high = calibrated_mean_ci(judged, labels, cluster_ids=clusters).ci
        return low, high

    return estimate


def truescore() -> Estimate:
    from truescore import ppi_estimate

    def estimate(judged: Array, labels: Array, clusters: Array | None) -> tuple[float, float]:
        place = np.flatnonzero(~np.isnan(labels))
        found = ppi_estimate(judged, labels[place], place, clusters=clusters)
        return found.low, found.high

    return estimate


def evalstats() -> Estimate:
    import evalstats as es

    def estimate(judged: Array, labels: Array, clusters: Array | None) -> tuple[float, float]:
        del clusters  # it takes units as independent
        known = ~np.isnan(labels)
        found = es.ppi.correct(
            np.mean, Y_lab=labels[known], Y_hat_lab=judged[known], Y_hat_unlab=judged[~known]
        )
        return found.ci_low, found.ci_high

    return estimate


def glide_py() -> Estimate:
    from glide.estimators import PPIMeanEstimator

    def estimate(judged: Array, labels: Array, clusters: Array | None) -> tuple[float, float]:
        del clusters  # it takes units as independent
        found = PPIMeanEstimator().estimate(labels, judged).confidence_interval
        return found.lower_bound, found.upper_bound

    return estimate


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    name, file = sys.argv[1:]
    draws = np.load(file)
    clusters = draws["clusters"] if draws["clusters"][0] >= 0 else None
    estimate = {"cje-eval": cje_eval, "truescore": truescore, "evalstats": evalstats, "glide-py": glide_py}[
        name
    ]()
    ends, failures, spent = [], [], 0.0
    for judged, labels in zip(draws["judged"], draws["labels"], strict=True):
        start = time.process_time()
        try:
            with redirect_stdout(io.StringIO()):
                ends.append([float(end) for end in estimate(judged, labels, clusters)])
        except Exception as error:  # noqa: BLE001 - what a peer raises is its result
            ends.append(None)
            failures.append(f"{type(error).__name__}: {error}"[:200])
        spent += time.process_time() - start
        if spent > SECONDS:
            break
    print(json.dumps({"ends": ends, "seconds": spent / len(ends), "failures": failures}))


if __name__ == "__main__":
    main()
