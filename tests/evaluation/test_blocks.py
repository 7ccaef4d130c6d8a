"""Blocks of work: an evaluation in one part and in many is the same evaluation."""

import asyncio
from collections.abc import Iterable
from itertools import islice

import pytest

from germane.evaluation.session import Session, evaluate_jobs
from germane.folder.tables import BlockRows, merge
from germane.judges import LexicalJudge
from germane.judging.asker import Asker
from germane.judging.spending import Budget
from germane.measures.declaration import graders_of, parse_measures
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.report import Report
from germane.types import Context, FrozenDict, Sample

MEASURES = "nDCG@3 context_precision@3 context_recall P(labels=human)@2 context_entity_recall"


def samples(count: int) -> list[Sample]:
    """Some with gold, some with people's grades, some with nothing to recall, some that failed."""
    found = []
    for n in range(count):
        contexts = tuple(
            Context(id=f"d{n}-{k}", text=f"Thing {n} of kind {k} weighs {k} kilograms.", grade=(n + k) % 4)
            for k in range(4)
        )
        found.append(
            Sample(
                id=f"q{n}",
                query=f"how much does thing {n} weigh",
                contexts=None if n % 7 == 3 else contexts[: n % 5],
                reference=None if n % 3 == 0 else f"Thing {n} weighs {n % 4} kilograms.",
                qrels=FrozenDict({f"d{n}-{n % 4}": 2}),
                error="the system failed" if n % 7 == 3 else None,
            )
        )
    return found


def parts(size: int, jobs: Iterable[Job]) -> list[BlockRows]:
    """Each block by itself, with an asker of its own, as an engine on many machines would do it."""

    async def one(block) -> BlockRows:
        async with Asker(LexicalJudge(), budget=Budget()) as asker:
            return await evaluate_jobs(block, asker.lookup, BlockRows(), ask=asker.judge)

    remaining = iter(jobs)
    return [asyncio.run(one(block)) for block in iter(lambda: tuple(islice(remaining, size)), ())]


def rows(part: BlockRows) -> bytes:
    return b"".join(part.scores.lines())


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    graders = graders_of(parse_measures([MEASURES]))
    return [Job(sample=sample, graders=graders) for sample in samples(31)]


@pytest.mark.parametrize("size", [1, 5, 30])
def test_one_part_and_many_are_equal(jobs: list[Job], size: int) -> None:
    """The same bytes in scores.jsonl, the same items, labels, notes and means."""
    (whole,) = parts(31, jobs)
    merged = merge(parts(size, jobs))
    assert rows(merged) == rows(whole)
    assert list(merged.places) == list(whole.places)
    assert list(merged.labels) == list(whole.labels)
    assert merged.notes == whole.notes
    assert merged.graders == whole.graders
    assert {one.key for one in merged.judgements} == {one.key for one in whole.judgements}
    manifest = Session(LexicalJudge(), Settings()).manifest()
    found, expected = Report.build(merged, manifest), Report.build(whole, manifest)
    assert found.summaries == expected.summaries


def test_jobs_with_graders_of_their_own(jobs: list[Job]) -> None:
    """Jobs that share some graders, in any order, are scored in a block as each is alone."""
    first, *others = jobs[0].graders
    sets = ((first, *others[:2]), (*others[2:], first), graders_of(parse_measures(["AP nDCG@3"])))
    mixed = [Job(sample=job.sample, graders=sets[n * n % 5 % 3]) for n, job in enumerate(jobs)]
    (whole,) = parts(31, mixed)
    merged = merge(parts(1, mixed))
    assert rows(merged) == rows(whole)
    assert merged.notes == whole.notes
    assert (merged.reads, merged.graded, merged.graders) == (whole.reads, whole.graded, whole.graders)
    assert {name: sorted(values) for name, values in merged.beside.items()} == {
        name: sorted(values) for name, values in whole.beside.items()
    }


def test_merging_is_associative(jobs: list[Job]) -> None:
    """However parts are put together, the rows are the same."""
    first, second, third = parts(11, jobs)
    left = merge([merge([first, second]), third])
    right = merge([first, merge([second, third])])
    assert rows(left) == rows(right) == rows(merge([first, second, third]))


def test_items_join_judgements_and_labels(jobs: list[Job]) -> None:
    """Every judgement's item has a row of its sample, and a person's grade stands on the item that was judged."""
    (whole,) = parts(31, jobs)
    items = {row.item for row in whole.places}
    assert {one.item for one in whole.judgements} <= items
    judged = {one.item for one in whole.judgements if one.kind == "relevance"}
    labelled = {label.item for label in whole.labels}
    assert judged
    assert judged <= labelled
    place = next(row for row in whole.places if row.kind == "relevance" and row.sample == "q2")
    assert (place.call, place.rank) == (1, 1)


def test_gold_writes_no_items() -> None:
    """Who asks nobody about anything has no items, and no digest is computed for it."""
    graders = graders_of(parse_measures(["nDCG@3 RR"]))
    bare = [Sample(id="q", query="q", contexts=(Context(id="a", text="t"),), qrels=FrozenDict(a=1))]
    (part,) = parts(10, [Job(sample=sample, graders=graders) for sample in bare])
    assert (len(part.places), len(part.labels), len(part.judgements)) == (0, 0, 0)
