"""Where relevant documents are lost: planted losses are found, in samples, in reports and in runs, and none where there is none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scripts.reference_pages import schema_of

from germane import evaluate
from germane.diagnosis.stages import SystemStages, render_stages, stages_document, stages_of
from germane.errors import InputError
from germane.evaluation.rank import rank
from germane.samples import samples_from
from germane.samples.contexts import compile_rule
from germane.show.table import plain_text
from germane.targets.target import complete
from tests.command import invoke

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema" / "stages.schema.json"


def one(row: dict[str, Any], **more: Any) -> SystemStages:
    return stages_of(samples_from([{"query": "a", **row}]), **more)[0]


def lists(names: str, *ids: str) -> list[dict[str, Any]]:
    return [{"name": name, "ids": listed.split()} for name, listed in zip(names.split(), ids, strict=True)]


WORKED = {
    "id": "q1",
    "qrels": {"a": 2, "b": 1, "c": 1, "d": 1, "n": 0},
    "stages": lists("bm25 fusion rerank", "n a b x", "a y c n b", "c x"),
}


def test_each_relevant_document_has_its_journey() -> None:
    """Where it was lost, and its rank in each stage."""
    found = {line.document: line for line in one(WORKED).documents()}
    assert {name: (line.where, line.lost, tuple(line.ranks.values())) for name, line in found.items()} == {
        "a": ("lost", "rerank", (2, 1, None)),
        "b": ("lost", "rerank", (3, 5, None)),
        "c": ("returned", None, (None, 3, 1)),
        "d": ("never retrieved", "bm25", (None, None, None)),
    }


def test_lost_and_saved_are_against_the_stage_before() -> None:
    """Of the first stage: what it never retrieved."""
    lines = one(WORKED).stages
    assert [(line.name, line.relevant, line.lost, line.saved) for line in lines] == [
        ("bm25", 2, 2, 0),
        ("fusion", 3, 0, 1),
        ("rerank", 1, 2, 0),
    ]
    assert [line.recall for line in lines] == [0.5, 0.75, 0.25]


def test_the_threshold_says_what_is_relevant() -> None:
    """With rel=2 only one document is."""
    assert [(line.relevant, line.lost) for line in one(WORKED, rel=2).stages] == [(1, 0), (1, 0), (0, 1)]


def test_contexts_that_differ_from_the_last_stage_are_one_more() -> None:
    """What the prompt holds is what counts; the same documents in another order are the same stage."""
    names = lambda row: [line.name for line in one(row).stages]  # noqa: E731
    assert names({**WORKED, "contexts": [{"id": "x"}, {"id": "c"}]}) == ["bm25", "fusion", "rerank"]
    assert names({**WORKED, "contexts": [{"id": "x"}]}) == ["bm25", "fusion", "rerank", "contexts"]
    assert names({**WORKED, "contexts": ["a text without an id"]}) == ["bm25", "fusion", "rerank"]


def test_without_stages_the_first_k_are_the_cut() -> None:
    """Returned, below k, never retrieved."""
    samples: list[dict[str, Any]] = [
        {"id": "q1", "query": "a", "qrels": {"a": 1, "b": 1, "c": 1, "d": 1}, "contexts": [{"id": "a"}, {"id": "x"}, {"id": "b"}]},
        {"id": "q2", "query": "b", "contexts": [{"id": "c"}]},
    ]  # fmt: skip
    (found,) = stages_of(samples_from(samples), k=2)
    assert [(line.name, line.relevant, line.lost) for line in found.stages] == [
        ("contexts", 2, 2),
        ("first 2", 1, 1),
    ]
    assert {line.document: line.where for line in found.documents()} == {
        "a": "returned",
        "b": "below k",
        "c": "never retrieved",
        "d": "never retrieved",
    }
    assert found.ends == {"returned": 1, "below k": 1, "never retrieved": 2}
    assert found.notes == ["1 sample left out: the sample has no qrels"]


def test_the_first_ten_are_the_cut_where_lists_are_longer() -> None:
    """Without -k; a list of ten has no cut."""
    ids = [{"id": f"d{at}"} for at in range(12)]
    row = {"id": "q", "qrels": {"d11": 1}, "contexts": ids}
    assert [line.where for line in one(row).documents()] == ["below k"]
    assert [line.name for line in one({**row, "contexts": ids[2:]}).stages] == ["contexts"]


def test_an_agents_searches_are_one_stage() -> None:
    """A document counts at its best rank; what is handed back in the end is the next stage."""
    calls = [{"contexts": [{"id": "x"}, {"id": "a"}]}, {"contexts": [{"id": "b"}, {"id": "x"}, {"id": "a"}]}]
    found = one({"id": "q", "qrels": {"a": 1, "b": 1}, "calls": calls, "contexts": [{"id": "b"}]})
    assert [line.name for line in found.stages] == ["calls", "contexts"]
    assert [tuple(line.ranks.values()) for line in found.documents()] == [(2, None), (1, 1)]


def test_a_stage_that_a_sample_lacks_hands_on_what_it_got() -> None:
    """It loses nothing, and the report says so."""
    rows = [
        {"id": "q1", "query": "a", "qrels": {"a": 1}, "stages": lists("bm25 rerank", "a", "a")},
        {"id": "q2", "query": "a", "qrels": {"a": 1}, "stages": lists("bm25 fusion rerank", "a", "x", "a")},
    ]
    (found,) = stages_of(samples_from(rows))
    assert [(line.name, line.lost, line.saved) for line in found.stages] == [
        ("bm25", 0, 0),
        ("fusion", 1, 0),
        ("rerank", 0, 1),
    ]
    (note,) = found.notes
    assert note.startswith("1 of 2 samples lacks a stage that others have; for it, the list of the previous")


@pytest.mark.parametrize("other", [{"contexts": [{"id": "a"}]}, {"stages": lists("hybrid", "a")}])
def test_a_sample_with_other_stages_adds_no_loss(other: dict[str, Any]) -> None:
    """Its contexts, or its own stage, are no first stage in which the others lose documents."""
    row = {"query": "a", "qrels": {"a": 1}}
    rows = [{**row, "id": "q1", "stages": lists("bm25 rerank", "a x", "a")}, {**row, "id": "q2", **other}]
    (found,) = stages_of(samples_from(rows))
    assert [(line.recall, line.lost, line.saved) for line in found.stages] == [(1.0, 0, 0)] * 3


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"contexts": [{"id": "a"}]}, "the sample has no qrels"),
        ({"qrels": {"a": 0}, "contexts": [{"id": "a"}]}, "no document in qrels has grade 1 or more"),
        ({"qrels": {"a": 1}, "contexts": ["text"]}, "the contexts have no document ids"),
        ({"qrels": {"a": 1}}, "the sample has no contexts"),
        ({"qrels": {"a": 1}, "answerable": False, "contexts": [{"id": "a"}]}, "unanswerable"),
    ],
)
def test_what_cannot_be_followed_is_refused(row: dict[str, Any], why: str) -> None:
    """With the reason."""
    with pytest.raises(InputError, match=why):
        one(row)


def planted(
    n: int, seed: int, *, drop: float = 0.0, save: float = 0.0, deep: float = 0.0
) -> list[dict[str, Any]]:
    """Queries with three relevant documents among 40, of which a middle stage drops and saves some.

    `deep`: the share that stands below rank 20 at first, which a cut at 20 then loses.
    """
    rng = random.Random(seed)
    found = []
    for number in range(n):
        gold = [f"g{number}-{at}" for at in range(3)]
        ids = [f"n{number}-{at}" for at in range(37)]
        for name in gold:
            ids.insert(rng.randrange(20, 30) if rng.random() < deep else rng.randrange(15), name)
        fused = [name for name in ids if name[0] == "n" or rng.random() >= drop]
        if rng.random() < save:
            fused.insert(3, f"s{number}")
        qrels = {**dict.fromkeys(gold, 1), f"s{number}": 1}
        cut = fused[:20] if deep else fused
        stages = [
            {"name": "first", "ids": ids},
            {"name": "fused", "ids": fused},
            {"name": "final", "ids": cut[::-1]},
        ]
        found.append({"id": f"q{number}", "query": "a", "qrels": qrels, "stages": stages})
    return found


def test_planted_losses_and_savings_are_found() -> None:
    """At the stage where they were planted and at no other, each one, and the change of recall is told from chance."""
    rows = planted(200, 1, drop=0.1, save=0.3)
    (found,) = stages_of(samples_from(rows))
    dropped = sum(
        name not in row["stages"][1]["ids"] for row in rows for name in row["qrels"] if name[0] == "g"
    )
    saved = sum(name[0] == "s" for row in rows for name in row["stages"][1]["ids"])
    first, fused, final = found.stages
    assert (first.lost, fused.lost, fused.saved) == (200, dropped, saved)
    assert (final.lost, final.saved) == (0, 0)
    (only,) = stages_of(samples_from(planted(200, 1, drop=0.1)))
    assert only.stages[1].difference_interval is not None
    assert only.stages[1].difference_interval[1] < 0


def test_no_loss_is_told_from_chance_where_none_was_planted() -> None:
    """Fifty times a stage that drops as often as it saves: at most 5 of 50 intervals exclude 0, and identical lists never do."""
    beyond = 0
    for seed in range(50):
        rng = random.Random(seed)
        rows = []
        for number in range(60):
            kept = [f"g{at}" for at in range(6) if rng.random() < 0.6]
            other = [f"g{at}" for at in range(6) if rng.random() < 0.6]
            stages = [
                {"name": "a", "ids": kept},
                {"name": "b", "ids": other},
                {"name": "c", "ids": other[::-1]},
            ]
            rows.append(
                {
                    "id": f"q{number}",
                    "query": "a",
                    "qrels": {f"g{at}": 1 for at in range(6)},
                    "stages": stages,
                }
            )
        (found,) = stages_of(samples_from(rows))
        ends = [line.difference_interval for line in found.stages[1:]]
        assert ends[0] is not None
        assert ends[1] is not None
        beyond += not ends[0][0] <= 0 <= ends[0][1]
        assert ends[1][0] <= 0 <= ends[1][1]
    assert beyond <= 5


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs and gold, as planted."""
    rows = planted(30, 3, drop=0.2, save=0.3, deep=0.2)
    for number, name in enumerate(("first", "fused", "final")):
        lines = [
            f"{row['id']} Q0 {doc} 0 {100 - at} x\n"
            for row in rows
            for at, doc in enumerate(row["stages"][number]["ids"])
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    (tmp_path / "gold").write_text(
        "".join(f"{row['id']} 0 {doc} 1\n" for row in rows for doc in row["qrels"])
    )
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_runs_and_samples_say_the_same(runs: Path) -> None:
    """The same lists as runs and as samples give the same document; its shape is the published one."""
    files = [runs / f"{name}.run" for name in ("first", "fused", "final")]
    of_runs = json.loads(invoke("stages", *files, "--qrels", runs / "gold", "--json").out)
    of_samples = json.loads(invoke("stages", runs / "samples.jsonl", "--json").out)
    jsonschema.validate(of_runs, schema_of(list[SystemStages]))
    assert of_runs["stages"] == of_samples["stages"]
    where = {"in no list at all": "never retrieved"}  # other lists of a run are not looked through
    assert of_runs["documents"] == [
        {**line, "where": where.get(line["where"], line["where"])} for line in of_samples["documents"]
    ]


def test_recall_is_that_of_rank(runs: Path) -> None:
    """The same mean and interval as R at a cut-off beyond the list."""
    found = json.loads(invoke("stages", runs / "final.run", "--qrels", runs / "gold", "--json").out)
    (line,) = found["stages"]
    same = rank(runs / "final.run", runs / "gold", "R@1000")["R@1000"]
    assert line["recall"] == pytest.approx(same.mean, abs=1e-12)
    assert same.interval is not None
    assert line["interval"] == pytest.approx(list(same.interval), abs=1e-12)


def test_a_report_is_read_back(tmp_path: Path) -> None:
    """The samples of a stored report keep their stages; with several systems each has its own."""
    rows = [
        {**row, "contexts": [{"id": doc} for doc in row["stages"][-1]["ids"]]}
        for row in planted(10, 4, drop=0.3)
    ]
    both = [{**row, "system": system} for system in ("one", "two") for row in rows]
    evaluate(rows, "R@10").save(tmp_path / "r")
    evaluate(both, "R@10").save(tmp_path / "both")
    found = json.loads(invoke("stages", tmp_path / "r", "--json").out)
    assert [line["name"] for line in found["stages"]] == ["first", "fused", "final"]
    several = json.loads(invoke("stages", tmp_path / "both", "--json").out)
    jsonschema.validate(several, schema_of(list[SystemStages]))
    assert [one["system"] for one in several["systems"]] == ["one", "two"]
    assert several["systems"][1]["stages"] == found["stages"]


def test_the_terminal_reads_like_a_funnel(runs: Path) -> None:
    """A line per stage with a bar, what became of the documents, the lost ones by name."""
    out = invoke("stages", runs / "samples.jsonl").out
    table = [line.split() for line in out.splitlines()]
    assert next(line for line in table if line[:1] == ["fused"])[1].startswith("███")
    assert "lost documents, best ranks first" in out
    assert "-q or --json prints every document" in out
    assert len(invoke("stages", runs / "samples.jsonl", "-q").out.splitlines()) > 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["first.run", "fused.run"], "several run files need gold labels"),
        (["samples.jsonl", "--doc-id", "x"], "--doc-id is for run files"),
        (["first.run", "first.run", "--qrels", "gold"], "the same run file is given twice"),
        (["first.run", "--qrels", "gold", "--rel", "2"], "no document in the gold has a grade of 2"),
        (["none"], "none"),
    ],
)
def test_mistakes_are_named(runs: Path, arguments: list[str], message: str) -> None:
    """In one line, exit code 2."""
    known = {path.name for path in runs.iterdir()}
    done = invoke("stages", *(runs / word if word in known else word for word in arguments))
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_the_published_schema_is_made_of_the_types() -> None:
    """docs/schema/stages.schema.json is generated from the records."""
    assert json.loads(PUBLISHED.read_text("utf-8")) == schema_of(list[SystemStages])
    jsonschema.validate(json.loads(json.dumps(stages_document([one(WORKED)]))), schema_of(list[SystemStages]))


def test_a_target_hands_its_stages_over() -> None:
    """Beside the contexts of its answer; `--doc-id` maps chunks to documents in them too."""
    (asked,) = samples_from([{"id": "q", "query": "a", "qrels": {"d1": 1}}])
    done = complete(
        asked, {"contexts": [{"id": "d1#2", "text": "t"}], "stages": lists("bm25", "d1#1 d1#2 d2#1")}, {}
    )
    mapped = compile_rule("^[^#]+")(done)
    assert [stage.ids for stage in mapped.stages] == [("d1", "d1", "d2")]
    assert [tuple(line.ranks.values()) for line in stages_of([mapped])[0].documents()] == [(1, 1)]


def test_one_stage_has_no_columns_of_changes() -> None:
    """There is none before it that it could differ from."""
    contexts = [{"id": "a", "text": "x"}]
    rows = samples_from([{"query": "q", "qrels": {"a": 1, "b": 1}, "contexts": contexts}])
    assert "change" not in plain_text(render_stages(stages_of(rows)), 120)


def test_a_run_without_gold_is_told_what_it_needs(tmp_path: Path) -> None:
    """A TREC run is neither a report nor samples."""
    (tmp_path / "my.run").write_text("q Q0 a 1 1 x\n")
    done = invoke("stages", str(tmp_path / "my.run"))
    assert done.code == 2
    assert "--qrels GOLD" in done.err
