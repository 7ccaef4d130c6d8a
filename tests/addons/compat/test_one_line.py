"""Programs written for the peers run with one line changed: the import."""

import textwrap
from typing import Any

import pytest

from tests.server import ModelServer

DEEPEVAL = """
from germane.addons.compat.deepeval import {metric}

metric = {metric}({arguments})
metric.measure(
    input="Which river flows through Cairo?",
    expected_output="The Nile flows through Cairo.",
    retrieval_context=["The Nile flows through Cairo.", "The Danube flows through Vienna."],
)
score, reason = metric.score, metric.reason
"""
RAGAS = """
from germane.addons.compat.ragas import context_precision

score = context_precision.score({
    "question": "Which river flows through Cairo?",
    "contexts": ["The Nile flows through Cairo.", "The Danube flows through Vienna."],
    "answer": "The Nile",
})
"""
MASTRA = """
from germane.addons.compat.mastra import ContextPositionMetric

metric = ContextPositionMetric({model}context=[
    "The Nile flows through Cairo.",
    "The Danube flows through Vienna.",
])
result = metric.measure("Which river flows through Cairo?", "It is the Nile.")
score, reason = result.score, result.info["reason"]
"""
METRICS = {
    "ContextualPrecisionMetric": 1.0,
    "ContextualRecallMetric": 1.0,
    "ContextualRelevancyMetric": 0.5,
}
ARGUMENTS = (
    "",
    'threshold=0.7, model="gpt-4o-mini", async_mode=False, strict_mode=False, verbose_mode=True',
)


def rule(kind, sections, _schema):
    """Whatever speaks of the Nile is relevant and supports everything."""
    about = sections.get("passage", "")
    if kind == "relevance":
        return {"reasoning": "the river", "grade": 3 if "Nile" in about else 0}
    if kind == "statements":
        return {"statements": [{"statement": about, "relevant": "Nile" in about}]}
    if kind == "claims":
        return {"claims": ["The Nile flows through Cairo."]}
    return {"claims": [{"claim": 1, "reasoning": "", "contexts": [1]}]}


def run(program: str, judge: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], set[str]]:
    """What a program leaves behind, and the models that it asked."""
    found: dict[str, Any] = {}
    with ModelServer(answer=rule) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("GERMANE_JUDGE", judge)
        exec(textwrap.dedent(program), found)
    return found, {asked.json["model"] for asked in server.asked}


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=["plain", "arguments"])
@pytest.mark.parametrize("metric", METRICS)
def test_deepeval(metric, arguments, monkeypatch):
    """With no argument at all, and with those that DeepEval takes; the judge is a model's bare name."""
    program = DEEPEVAL.format(metric=metric, arguments=arguments)
    found, models = run(program, "gpt-4o-mini", monkeypatch)
    assert (found["score"], models) == (METRICS[metric], {"gpt-4o-mini"})
    assert found["reason"]


@pytest.mark.parametrize("judge", ["openai", "gpt-4o-mini", "openai:gpt-4o-mini", " gpt-4o-mini "])
def test_ragas(judge, monkeypatch):
    """GERMANE_JUDGE names the model."""
    found, models = run(RAGAS, judge, monkeypatch)
    assert (found["score"], models) == (1.0, {"gpt-4o-mini"})


@pytest.mark.parametrize("model", ["", '"gpt-4o", '], ids=["environment", "argument"])
def test_mastra(model, monkeypatch):
    """The model as an argument or from the environment, the options by name."""
    found, models = run(MASTRA.format(model=model), "gpt-4o-mini", monkeypatch)
    assert found["score"] == pytest.approx(2 / 3)
    assert models == {"gpt-4o" if model else "gpt-4o-mini"}
    assert "Position 2: Not relevant - the river" in found["reason"]


def test_a_panel_of_bare_names(monkeypatch):
    """Each name of GERMANE_JUDGE is read like that; what is no model keeps its name."""
    _, models = run(RAGAS, "gpt-4o-mini o3 gpt-4.1", monkeypatch)
    assert models == {"gpt-4o-mini", "o3", "gpt-4.1"}
    found, models = run(RAGAS, "lexical", monkeypatch)
    assert models == set()
    assert found["score"] is not None
