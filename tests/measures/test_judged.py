"""The judged measures: worked examples through `evaluate`, and what each does at its edges."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.judges import FakeJudge, Reply
from germane.questions import AnyQuestion, Relevance, StatementRelevance, Support
from germane.reports.report import Report
from germane.types import Json, Score
from tests.measures.words import explained


def supports(*where: list[int]) -> Json:
    return {"claims": [{"claim": n, "reasoning": "", "contexts": c} for n, c in enumerate(where, 1)]}


def claims(*texts: str) -> Json:
    return {"claims": list(texts)}


def stated(**relevant: bool) -> Json:
    return {"statements": [{"statement": text, "relevant": yes} for text, yes in relevant.items()]}


def one(report: Report) -> Score:
    (score,) = report.scores()
    return score


class TestWorkedExamples:
    @pytest.mark.parametrize(("labels", "value"), [("YNN", 1.0), ("NNY", 1 / 3), ("YNY", 5 / 6)])
    def test_desert_context_precision(self, labels, value):
        """Relevant passages first score 1, the only relevant one last of three scores a third."""
        contexts = [{"text": f"desert {n}", "relevant": label == "Y"} for n, label in enumerate(labels)]
        report = evaluate(
            [{"query": "How do camels live in the desert?", "contexts": contexts}],
            "context_precision",
            judge="labels",
        )
        assert report["context_precision"].mean == pytest.approx(value)

    def test_causes_of_deforestation(self):
        """Three of four claims are supported, and the missing one is named."""
        sample = {
            "query": "What causes deforestation?",
            "reference": "Agriculture, logging, roads and mining cause deforestation.",
            "contexts": ["Farms and logging clear forests.", "Roads open the forest."],
        }
        judge = FakeJudge(
            {
                "claims": claims(
                    "Agriculture causes it.", "Logging causes it.", "Roads cause it.", "Mining causes it."
                ),
                "support": supports([1], [1], [2], []),
            }
        )
        result = explained("context_recall", sample, judge)
        assert result["score"] == 0.75
        assert result["misses"] == ["Mining causes it."]
        assert result["reasoning"] == (
            "3/4 claims supported by the contexts, recall score: 0.75; missing: Mining causes it."
        )

    def test_brazil_entities(self):
        """Two of three entities came back, and the date that did not is named."""
        reference = "Brazil became independent of Portugal on 7 September 1822."
        sample = {
            "query": "When did Brazil become independent?",
            "reference": reference,
            "contexts": ["Brazil was a colony.", "PORTUGAL ruled for three centuries."],
        }
        judge = FakeJudge(
            {
                reference: {"entities": ["Brazil", "Portugal", "7 September 1822"]},
                "Brazil was a colony.": {"entities": ["brazil"]},
                "PORTUGAL ruled for three centuries.": {"entities": ["PORTUGAL,"]},
            }
        )
        result = explained("context_entity_recall", sample, judge)
        assert result["score"] == pytest.approx(2 / 3)
        assert result["misses"] == ["7 September 1822"]
        assert "missing: 7 September 1822" in result["reasoning"]

    def test_green_tea(self):
        """Two of three statements are relevant, whichever passage they stand in."""
        sample = {"query": "Is green tea healthy?", "contexts": ["Tea A.", "Tea B."]}
        judge = FakeJudge(
            {
                "Tea A.": stated(antioxidants=True, price=False),
                "Tea B.": stated(heart=True),
            }
        )
        result = explained("context_relevancy", sample, judge)
        assert result["score"] == pytest.approx(2 / 3)
        assert result["misses"] == ["price - context 1"]
        assert result["reasoning"] == "2/3 statements relevant, relevancy score: 0.67; not relevant: price"

    @pytest.mark.parametrize(("labels", "value"), [("YYY", 1.0), ("NYYN", 0.4)])
    def test_position(self, labels, value):
        """Photosynthesis, all relevant: 1.0; exercise, N Y Y N: 0.40."""
        contexts = [{"text": f"passage {n}", "relevant": label == "Y"} for n, label in enumerate(labels)]
        report = evaluate([{"query": "?", "contexts": contexts}], "context_position", judge="labels")
        assert report["context_position"].mean == pytest.approx(value)

    def test_the_three_fixed_strings(self):
        """Hits, misses and the one line of a ranked score have a fixed wording."""

        def answer(question: AnyQuestion) -> Json:
            assert isinstance(question, Relevance)
            yes = question.passage != "b"
            return {"grade": 3 if yes else 0, "reasoning": "on topic" if yes else "off topic"}

        result = explained(
            "context_precision", {"query": "?", "contexts": ["a", "b", "c"]}, FakeJudge(answer)
        )
        assert result["hits"] == ["Position 1: Relevant - on topic", "Position 3: Relevant - on topic"]
        assert result["misses"] == [
            "Position 2: Not relevant - off topic",
            "Position 3: Relevant but ranked below irrelevant ones",
        ]
        assert result["reasoning"] == "2/3 chunks relevant, precision score: 0.83"
        assert result["details"]["band"] == "good with noise between"


NEEDS = {"query": "q", "reference": "r", "response": "a"}


class TestNothingToCount:
    @pytest.mark.parametrize(
        ("measure", "value"),
        [
            ("context_recall", 0.0),
            ("context_relevancy", 0.0),
            ("context_entity_recall", 0.0),
            ("context_sufficiency", 0.0),
            ("faithfulness", 0.0),
            ("context_utilisation", 0.0),
            ("nugget_recall", 0.0),
            ("StR@5", 0.0),
            ("alpha_nDCG@5", 0.0),
            ("noise_sensitivity", None),
        ],
    )
    def test_nothing_retrieved(self, measure, value):
        """Nothing retrieved is the worst value (or skipped where it cannot be a fault), and nobody is asked."""
        judge = FakeJudge()
        score = one(evaluate([{**NEEDS, "contexts": []}], measure, judge=judge))
        assert score.value == value
        assert score.status == ("ok" if value is not None else "skipped")
        assert judge.asked == []

    @pytest.mark.parametrize(
        ("measure", "why"),
        [
            ("context_recall", "the reference makes no claims"),
            ("faithfulness", "the response makes no claims"),
            ("context_utilisation", "the response makes no claims"),
            ("noise_sensitivity", "the response makes no claims"),
            ("context_relevancy", "the contexts state nothing"),
            ("answer_relevancy", "the response states nothing"),
            ("context_entity_recall", "the reference has no entities"),
            ("StR@5", "the reference makes no claims"),
            ("alpha_nDCG@5", "the reference makes no claims"),
            ("nugget_recall", "the sample has no nuggets"),
            ("citation_precision", "the response cites nothing"),
        ],
    )
    def test_nothing_to_count_is_skipped(self, measure, why):
        """Where there is nothing to count, the sample is skipped and says why."""
        judge = FakeJudge({"claims": claims(), "statements": stated(), "entities": {"entities": []}})
        score = one(evaluate([{**NEEDS, "contexts": ["c"]}], measure, judge=judge))
        assert (score.status, score.why) == ("skipped", why)

    def test_a_missing_field_is_named(self):
        """A sample that lacks what a measure needs is skipped before anybody is asked."""
        judge = FakeJudge()
        score = one(evaluate([{"query": "q", "contexts": ["c"]}], "faithfulness", judge=judge))
        assert (score.status, score.why, judge.asked) == ("skipped", "the sample has no response", [])

    def test_unanswerable(self):
        """A question that cannot be answered has no relevant statements to find."""
        score = one(
            evaluate(
                [{"query": "q", "contexts": ["c"], "answerable": False}],
                "context_relevancy",
                judge=FakeJudge(),
            )
        )
        assert score.status == "skipped"


class TestFailures:
    def test_one_missing_list_of_statements(self):
        """A context whose answer is missing may hold any number of statements: anything from 0 to 1 is possible."""
        judge = FakeJudge({"a": stated(x=True), "b": Reply(error="timeout")})
        score = one(evaluate([{"query": "q", "contexts": ["a", "b"]}], "context_relevancy", judge=judge))
        assert (score.status, score.bounds) == ("incomplete", (0.0, 1.0))
        assert score.why == "1 lists of items are missing: timeout"

    def test_all_missing(self):
        """Nothing answered is an error, not a 0."""
        judge = FakeJudge(lambda _: Reply(error="timeout"))
        for measure in (
            "context_relevancy",
            "context_recall",
            "context_sufficiency",
            "context_entity_recall",
        ):
            assert one(evaluate([{**NEEDS, "contexts": ["a"]}], measure, judge=judge)).status == "error"

    def test_entities_of_one_context_missing(self):
        """What was found is certain; what was not may stand in the passage that was not read."""
        judge = FakeJudge(
            {"r": {"entities": ["A", "B", "C", "D"]}, "one": {"entities": ["A"]}, "two": Reply(error="no")}
        )
        score = one(evaluate([{**NEEDS, "contexts": ["one", "two"]}], "context_entity_recall", judge=judge))
        assert (score.status, score.bounds) == ("incomplete", (0.25, 1.0))

    def test_all_found_although_one_is_missing(self):
        """An unread passage cannot change a recall that is 1 already."""
        judge = FakeJudge({"r": {"entities": ["A"]}, "one": {"entities": ["A"]}, "two": Reply(error="no")})
        score = one(evaluate([{**NEEDS, "contexts": ["one", "two"]}], "context_entity_recall", judge=judge))
        assert score.value == 1.0


class TestSharing:
    def test_a_passage_is_asked_everything_at_once(self):
        """Relevance, statements and entities of a passage are asked in one round, so that they can share a request."""
        judge = FakeJudge(together=100)
        evaluate(
            [{**NEEDS, "contexts": ["a", "b"]}],
            ["context_precision@5", "context_relevancy", "context_entity_recall"],
            judge=judge,
        )
        assert judge.calls == 1
        kinds = sorted(question.kind for question in judge.asked)
        assert kinds == ["entities"] * 3 + ["relevance"] * 2 + ["statements"] * 2

    def test_claims_are_asked_once_whoever_needs_them(self):
        """Several measures over the same claims and contexts ask two questions each about reference and response."""
        judge = FakeJudge()
        evaluate(
            [{**NEEDS, "contexts": ["a", "b"]}],
            [
                "context_recall",
                "StR@5",
                "faithfulness",
                "context_utilisation",
                "noise_sensitivity",
            ],
            judge=judge,
        )
        assert sorted(question.kind for question in judge.asked) == ["claims"] * 2 + ["support"] * 3

    def test_two_samples_of_one_query_share_a_passages_entities(self):
        """The entities are judged for a query: two systems that find the same passage for it ask once."""
        judge = FakeJudge()
        samples = [{**NEEDS, "id": "1", "system": n, "contexts": ["a"]} for n in ("1", "2")]
        evaluate(samples, "context_entity_recall", judge=judge)
        assert sorted(question.about for question in judge.asked) == ["a", "r"]

    def test_statements_follow_the_one_setting(self):
        """The statements of a passage are judged against what the evaluation judges relevance against."""
        for against, reference in (("auto", "r"), ("query", None)):
            judge = FakeJudge()
            evaluate([{**NEEDS, "contexts": ["a"]}], "context_relevancy", judge=judge, against=against)
            (question,) = judge.asked
            assert isinstance(question, StatementRelevance)
            assert question.reference == reference

    def test_the_union_of_calls_is_judged(self):
        """Several searches: claims may be supported by what any of them brought, each passage shown once."""
        judge = FakeJudge({"claims": claims("x"), "support": supports([2])})
        calls = [{"query": "1", "contexts": ["a", "b"]}, {"query": "2", "contexts": ["b", "c"]}]
        score = one(evaluate([{**NEEDS, "calls": calls}], "context_recall", judge=judge))
        asked = judge.asked[-1]
        assert isinstance(asked, Support)
        assert (score.value, asked.contexts) == (1.0, ("a", "b", "c"))


class TestOfTheResponse:
    def test_answer_relevancy(self):
        """The statements of the response that address the query."""
        judge = FakeJudge({"a": stated(yes=True, padding=False)})
        assert one(evaluate([{"query": "q", "response": "a"}], "answer_relevancy", judge=judge)).value == 0.5

    def test_context_utilisation(self):
        """The contexts that any claim of the response rests on."""
        judge = FakeJudge({"claims": claims("x", "y"), "support": supports([1, 3], [3])})
        score = one(
            evaluate([{**NEEDS, "contexts": ["a", "b", "c", "d"]}], "context_utilisation", judge=judge)
        )
        assert score.value == 0.5

    @pytest.mark.parametrize(("which", "value"), [("relevant", 0.25), ("irrelevant", 0.25), ("any", 0.5)])
    def test_noise_sensitivity(self, which, value):
        """Wrong claims count by where they came from: relevant and irrelevant add up to any."""

        def answer(question: AnyQuestion) -> Json:
            if isinstance(question, Support):
                if question.contexts == ("true",):  # what the reference claims; correct: only the first claim
                    return supports([1], [], [], [])
                if len(question.claims) == 1:  # the reference's claim is supported by context 1
                    return supports([1])
                return supports([1], [1, 2], [2], [])  # 2nd from relevant, 3rd from irrelevant, 4th made up
            return claims("w", "x", "y", "z") if question.about == "a" else claims("true")

        score = one(
            evaluate(
                [{**NEEDS, "contexts": ["c1", "c2"]}],
                f"noise_sensitivity(contexts={which})",
                judge=FakeJudge(answer),
            )
        )
        assert score.value == value

    def test_a_short_reference_is_held_against_as_what_it_claims(self):
        """Whether the response is right is judged by "Curie was born in Warsaw", not by the bare word."""
        judge = FakeJudge(
            lambda question: (
                claims("Curie was born in Warsaw.") if question.kind == "claims" else supports([1])
            )
        )
        sample = {"query": "Where was Curie born?", "reference": "Warsaw", "response": "In Warsaw."}
        evaluate([{**sample, "contexts": ["c"]}], "noise_sensitivity", judge=judge)
        shown = [question.contexts for question in judge.asked if isinstance(question, Support)]
        assert ("Curie was born in Warsaw.",) in shown
        assert ("Warsaw",) not in shown
