"""Real systems in order, with intervals, and how a judge would order them: `python -m benchmarks.systems FOLDER`.

FOLDER is that of `benchmarks.corrected_means`. Each judge is taken as a reranker, a pseudo-system whose list for a
query is its passages by that judge's grade (ties by the passages' order in the file). People's grades score the lists
with nDCG@10 (gain = grade). Every system is compared with the best. At the end the order by people's grades is set
against the order by one judge's grades. Then the same lists go through `evaluate`: the report's means and intervals must
be the same, and what it prints of the systems' order, of two systems, and of a difference in lists and gold is shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from benchmarks.corrected_means import Data, Floats, Ints, read
from germane import Report, compare, evaluate
from germane.reports.pairing import rank_systems
from germane.statistics.comparison import holm, paired_difference
from germane.statistics.intervals import mean_interval

DEPTH = 10


def lists(data: Data, judge: str) -> list[Ints]:
    """Per query the places of the first ten pairs by the judge's grade."""
    found = []
    for query in range(int(data.queries.max()) + 1):
        pairs = np.flatnonzero(data.queries == query)
        found.append(pairs[np.argsort(-data.judges[judge][pairs], kind="stable")][:DEPTH])
    return found


def ndcg(data: Data, ranked: list[Ints], grades: Floats) -> Floats:
    """nDCG@10 of each query's list by the grades given."""
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    best = [np.sort(grades[data.queries == query])[::-1][:DEPTH] for query in range(len(ranked))]
    pairs = zip(ranked, best, strict=True)
    return np.array(
        [float(grades[places] @ discount) / max(float(ideal @ discount), 1e-300) for places, ideal in pairs]
    )


def report_of(data: Data, ranked: dict[str, list[Ints]], grades: Floats) -> Report:
    """The report on these systems' lists, with these grades as gold."""
    rows = []
    for system, places in ranked.items():
        for query, mine in enumerate(places):
            gold = {str(pair): int(grades[pair]) for pair in np.flatnonzero(data.queries == query).tolist()}
            contexts = [{"id": str(pair), "text": f"passage {pair}"} for pair in mine.tolist()]
            row = {"id": f"q{query}", "query": f"query {query}", "qrels": gold, "contexts": contexts}
            rows.append({**row, "system": system})
    return evaluate(rows, "nDCG@10")


def main(folder: Path, judge: str) -> None:
    data = read(folder)
    ranked = {name: lists(data, name) for name in data.judges}
    scores = {name: ndcg(data, places, data.people) for name, places in ranked.items()}
    order = sorted(scores, key=lambda name: -scores[name].mean())
    first = order[0]
    found = {name: paired_difference(scores[first], scores[name], value_range=(0, 1)) for name in order[1:]}
    adjusted = dict(zip(found, holm([one.p or 0.0 for one in found.values()]), strict=True))
    print(f"== {len(order)} pseudo-systems by people's grades, nDCG@10 over {len(scores[first])} queries ==")
    print(
        f"{'':26}{'mean':>7}{'95% interval':>17}  method        less than the first, 95% interval    p (Holm)"
    )
    for name in order:
        own = mean_interval(scores[name], value_range=(0, 1))
        low, high = own.ends or (np.nan, np.nan)
        line = f"{name:26}{own.mean:7.3f}   {low:.3f} .. {high:.3f}  {own.method:12}"
        if name in found:
            one = found[name]
            below, above = one.interval.ends or (np.nan, np.nan)
            line += f"  {one.difference:+.3f}  {below:+.3f} .. {above:+.3f} {one.interval.method:10} {adjusted[name]:.4f}"
            line += "" if not below <= 0 <= above else "  not distinguishable"
        print(line)
    people = [scores[name].mean() for name in order]
    model = [ndcg(data, ranked[name], data.judges[judge]).mean() for name in order]
    print(f"order by people against order by {judge}: tau {kendalltau(people, model).statistic:.3f}")
    report = report_of(data, ranked, data.people)
    for name in order:
        summary = report["nDCG@10", name]
        mine = mean_interval(scores[name], value_range=(0, 1))
        assert summary.n == len(scores[name]), (name, summary.why)
        assert np.allclose(
            [summary.mean or 0, *(summary.interval or ())], [mine.mean or 0, *(mine.ends or ())]
        )
    print("\n== the same by evaluate and rank_systems: means and intervals are equal ==")
    print(rank_systems(report))
    last = order[-1]
    print(f"\n== {first} against {last} ==")
    print(compare(report, systems=[last, first], margin={"nDCG@10": 0.02}))
    print(f"\n== {last} by people's grades against {first} by {judge}'s grades as gold ==")
    one = report_of(data, {last: ranked[last]}, data.people)
    other = report_of(data, {first: ranked[first]}, np.maximum(data.judges[judge], 0))
    print(compare(one, other))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", default="willia-umbrela1")
    options = parser.parse_args()
    main(options.folder, options.judge)
