"""What each search of an agent brought: the same figures as the measures of searches, in every format."""

from __future__ import annotations

from germane import evaluate
from germane.reports.explain import Explainer, lines_of
from germane.types import Json

MEASURES = "id_recall"


def agent(name: str, *calls: tuple[str, str], qrels: str = "ab", **more: Json) -> dict[str, Json]:
    """A sample whose calls are pairs of a query and the ids that came back, a letter each."""
    made = [{"query": query, "contexts": [{"id": one, "text": one} for one in ids]} for query, ids in calls]
    return {"id": name, "query": "q", "qrels": dict.fromkeys(qrels, 1), "calls": made, **more}


SAMPLES = [
    agent("both", ("x", "a-"), ("y", "b"), ("X ", "a")),
    agent("never", ("x", "-"), ("x", "")),
    {"id": "plain", "query": "q", "qrels": {"a": 1, "b": 1}, "contexts": [{"id": "a", "text": "a"}]},
]


def test_an_explanation_names_empty_searches_and_the_final_list() -> None:
    """Each search keeps its number though another brought nothing; what was handed back is no search."""
    rows = [agent("one", ("x", ""), ("y", "a"), contexts=[{"id": "a", "text": "a"}])]
    report = evaluate(rows, "nDCG@2")
    (sample,) = report.samples()
    text = "\n".join(lines_of(Explainer(report).facts(sample, list(report.scores()))))
    assert "call 1 searched for x\nnothing came back" in text
    assert "call 2 searched for y\nrank" in text
    assert "handed back in the end\nrank" in text
    assert "call 3" not in text
