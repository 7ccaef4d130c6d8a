"""`germane diagnose` tells retrieval from generation by stored verdicts of a model, over real HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, invoke
from tests.server import ModelServer

RECALL, STATED, FAITHFUL = "context_recall", "nugget_recall(text=response)", "faithfulness"
FACT, LURE, OTHER = "Port is at 80.", "Cats can fly.", "Bread needs yeast."
CASES = {
    "answered": ([FACT], f"{FACT} {FACT}"),
    "not_retrieved": ([OTHER], LURE),
    "ignored": ([OTHER, FACT], LURE),
    "unsupported": ([OTHER], f"{FACT} {FACT}"),
}
"""By what becomes of a query: its contexts, and its response; the reference is FACT."""


def model(kind: str, sections: Mapping[str, str], _schema: Mapping[str, Any]) -> Any:
    """A model that takes a sentence for a claim, and one to be supported where it stands in a text."""
    if kind == "claims":
        return {"claims": re.findall(r"[^.]+\.", sections["passage"].replace(". ", "."))}
    name = "nuggets" if kind in {"nuggets", "importance"} else "claims"
    listed = dict(re.findall(r"^(\d+)\. (.*)$", sections[name], re.MULTILINE))
    if kind == "importance":
        return {name: [{"nugget": int(number), "importance": "vital"} for number in listed]}
    texts = [text for key, text in sorted(sections.items()) if key.startswith("context ")]
    held = {
        number: [at for at, text in enumerate(texts, 1) if claim in text] for number, claim in listed.items()
    }
    if kind == "nuggets":
        rows = [(number, "support" if held[number] else "not_support") for number in listed]
        return {
            name: [{"nugget": int(number), "reasoning": "", "support": support} for number, support in rows]
        }
    return {name: [{"claim": int(number), "reasoning": "", "contexts": held[number]} for number in listed]}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def judged(folder: Path, rows: list[dict[str, Any]], measures: str) -> Path:
    data, report = folder / "s.jsonl", folder / "r"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ModelServer(answer=model) as server:
        judge = ("--judge", "openai:test", "--base-url", server.url, "--no-cache")
        ran = invoke("run", data, "-m", measures, *judge, "-o", report, "-q", "--force")
    assert ran.code == 0, ran.err
    return report


def cases(times: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{name}-{n}",
            "query": "Where is the port?",
            "reference": FACT,
            "contexts": contexts,
            "response": response,
        }
        for n in range(times)
        for name, (contexts, response) in CASES.items()
    ]


def diagnosed(report: Path, *more: str) -> dict[str, Any]:
    ran: Ran = invoke("diagnose", report, *more, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.json["blame"]
    return found


def test_each_query_has_its_cause(tmp_path: Path) -> None:
    """Counts, shares with exact intervals, and the queries of each; a report that ranks nothing has a diagnosis, too."""
    report = judged(tmp_path, cases(3), f"{RECALL} {STATED} {FAITHFUL}")
    blame = diagnosed(report)
    assert list(blame) == [*CASES, "unknown"]
    for name in CASES:
        line = blame[name]
        assert (line["count"], line["share"]) == (3, 0.25)
        assert line["queries"] == [f"{name}-{n}" for n in range(3)]
        assert line["interval"] == pytest.approx([0.0549, 0.5719], abs=1e-4)  # Clopper-Pearson, 3 of 12
    assert blame["unknown"] == {**blame["unknown"], "count": 0, "queries": [], "add": []}
    said = invoke("diagnose", report).out
    assert "not retrieved 3 (25%, 5% to 57%)" in " ".join(said.split())
    assert "ignored-0, ignored-1, ignored-2" in said


def test_trials_of_a_query_are_averaged(tmp_path: Path) -> None:
    """A query counts once in each of its outcomes, with a share of its trials."""
    rows = [{**row, "id": "a", "trial": at} for at, row in enumerate(cases()[:3])]
    rows.append({**rows[0], "id": "b", "trial": 0})
    blame = diagnosed(judged(tmp_path, rows, f"{RECALL} {STATED} {FAITHFUL}"))
    assert [(line["count"], round(line["share"], 3), line["queries"]) for line in blame.values()][:3] == [
        (2, 0.667, ["a", "b"]),
        (1, 0.167, ["a"]),
        (1, 0.167, ["a"]),
    ]


@pytest.mark.parametrize(
    ("measures", "missing"),
    [
        (f"{RECALL} {STATED}", [FAITHFUL]),
        (f"{RECALL} {FAITHFUL}", [STATED]),
        (f"{STATED} {FAITHFUL}", [RECALL]),
        (FAITHFUL, [RECALL, STATED]),
    ],
)
def test_a_missing_verdict_is_unknown(tmp_path: Path, measures: str, missing: list[str]) -> None:
    """It names the measures to add; once they are measured nothing is unknown."""
    report = judged(tmp_path, cases(), measures)
    blame = diagnosed(report)
    assert (blame["unknown"]["count"], blame["unknown"]["add"]) == (4, missing)
    said = " ".join(invoke("diagnose", report).out.split())
    command = f"germane run --resume REPORT -m 'ITS MEASURES {' '.join(missing)}'"
    assert f"unknown; verdicts of {' and '.join(missing)} are missing: {command}" in said


def test_claims_that_are_missing_decide(tmp_path: Path) -> None:
    """The contexts hold two of three facts; what the response lacks is what they do not hold, or what they do."""
    facts = ["Port is at 80.", "Host is local.", "Key is secret."]
    rows = [
        {"id": name, "query": "x", "reference": " ".join(facts), "contexts": contexts, "response": facts[0]}
        for name, contexts in (("lost", [facts[0]]), ("there", facts))
    ]
    blame = diagnosed(judged(tmp_path, rows, f"{RECALL} {STATED} {FAITHFUL}"))
    assert (blame["not_retrieved"]["queries"], blame["ignored"]["queries"]) == (["lost"], ["there"])


def test_beside_the_changes_of_a_ranked_measure(tmp_path: Path) -> None:
    """Samples without a reference, without a response or without an answer are left out; other reports say nothing of it."""
    rows = [
        row | {"qrels": {"d": 1}, "contexts": [{"id": "d", "text": row["contexts"][0]}]} for row in cases()
    ]
    rows[1].pop("reference")
    rows[2].pop("response")
    report = judged(tmp_path, rows, f"nDCG@5 {RECALL} {STATED} {FAITHFUL}")
    document = invoke("diagnose", report, "--json").json
    assert document["measure"] == "nDCG@5"
    assert {name: line["queries"] for name, line in document["blame"].items() if line["count"]} == {
        "answered": ["answered-0"], "unsupported": ["unsupported-0"],
    }  # fmt: skip
    assert invoke("run", tmp_path / "s.jsonl", "-m", "nDCG@5", "-o", tmp_path / "g", "-q").code == 0
    assert "retrieval or generation" not in invoke("diagnose", tmp_path / "g").out
    assert diagnosed(tmp_path / "g")["unknown"]["add"] == [RECALL, STATED, FAITHFUL]


def test_the_page_says_it_in_a_line(tmp_path: Path) -> None:
    """The page holds the line; of several systems each has its own."""
    rows = [row | {"system": system} for system in ("a", "b") for row in cases()]
    report = judged(tmp_path, rows, f"{RECALL} {STATED} {FAITHFUL}")
    page = tmp_path / "p.html"
    assert invoke("report", report, "-o", page).code == 0
    assert page.read_text().count("retrieval or generation: answered from the contexts 1 (25%") == 2
    systems = invoke("diagnose", report, "--json").json["systems"]
    assert [system["blame"]["ignored"]["queries"] for system in systems] == [["ignored-0"]] * 2
