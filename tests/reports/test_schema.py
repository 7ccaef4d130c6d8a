"""The published JSON Schema of the `--json` document is the one that the code has, and documents obey it."""

import json
from pathlib import Path

import jsonschema
import pytest
from scripts.reference_pages import schema_of

from germane import evaluate
from germane.encoding import Line
from germane.labelling.audit import AuditDocument
from germane.reports.explain import ExplainDocument
from germane.reports.formats import Document
from germane.types import Json
from tests.command import invoke

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema" / "report.schema.json"


def samples(system: str = "") -> list[dict[str, Json]]:
    graded = [{"id": "d2", "text": "y"}, {"id": "d1", "text": "x", "grade": 3}]
    return [
        {"id": "q1", "query": "a", "qrels": {"d1": 1}, "contexts": graded, "system": system},
        {"id": "q2", "query": "b", "contexts": graded[1:], "system": system},
        {"id": "q3", "query": "c", "system": system},
    ]


def test_the_published_schema_is_current() -> None:
    """docs/schema/report.schema.json is made of the records."""
    assert json.loads(PUBLISHED.read_text("utf-8")) == schema_of(Document)


@pytest.mark.parametrize("systems", [[""], ["bm25", "dense"]])
def test_documents_obey_the_schema(systems: list[str]) -> None:
    """With ok, skipped, incomplete scores, one system or two: the document validates, and has no NaN."""
    rows = [row for system in systems for row in samples(system)]
    report = evaluate(rows, "context_precision@2 RR", judge="labels", gates=["mean(RR)>=0.5"])
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    jsonschema.validate(document, schema_of(Document))
    assert {row["status"] for row in document["scores"]} == {"ok", "skipped", "incomplete"}
    assert ("measures" in document) is (len(systems) == 1)


def test_rank_prints_the_same_document(tmp_path: Path) -> None:
    """`germane rank --json -q` obeys the same schema, with its notes and scores."""
    (tmp_path / "run").write_text("q1 Q0 d1 1 2.5 x\nq9 Q0 d1 1 2.5 x\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    ran = invoke("rank", tmp_path / "run", "--qrels", tmp_path / "qrels", "-m", "RR", "-q", "--json")
    assert ran.code == 0
    document = ran.json
    jsonschema.validate(document, schema_of(Document))
    assert document["measures"]["RR"]["mean"] == 0.5
    assert len(document["scores"]) == 2
    assert document["notes"]


def test_the_schema_refuses_another_document() -> None:
    """A document with a field missing or of the wrong type does not validate."""
    document = evaluate(samples(), "RR").to_json()
    broken = {**document, "exit_code": "0"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema_of(Document))


@pytest.mark.parametrize(
    ("command", "document"),
    [
        (("explain", "report", "q1"), ExplainDocument),
        (("audit", "report"), AuditDocument),
    ],
)
def test_what_other_commands_print_obeys_its_schema(
    command: tuple[str, ...], document: type[Line], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explain and audit, of a report with labels of people and a judge's verdicts, with nothing that is not declared."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{n}", "query": f"tea {n}", "qrels": {"d1": 1},
         "contexts": [{"id": "d1", "text": f"tea {n} is warm", "grade": 3}, {"id": "d2", "text": f"cold {n % 3}", "grade": 0}]}
        for n in range(12)
    ]  # fmt: skip
    evaluate(rows, "context_precision nDCG@2", judge="lexical", folder="report")
    ran = invoke(*command, "--json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, schema_of(document))
    assert ran.json.keys() == set(document.__struct_fields__) - {"again"}  # which --again adds
    published = PUBLISHED.with_name(f"{command[0]}.schema.json")
    assert json.loads(published.read_text("utf-8")) == schema_of(document)
