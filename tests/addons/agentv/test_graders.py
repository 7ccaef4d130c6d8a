"""What graders give by default, where AgentV's own values would mislead, and what both have in common."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any, ClassVar

import numpy as np
import pytest

from germane import evaluate
from germane.addons.agentv.graders import (
    Aggregator,
    CodeGrader,
    Composite,
    Cost,
    FieldAccuracy,
    FieldRule,
    Latency,
    LLMGrader,
    RubricItem,
    TextAssertion,
    TokenUsage,
    ToolTrajectory,
)
from germane.addons.agentv.graders.field_accuracy import date_in
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import GraderResult, MeasureGrader
from germane.graders.grader import DirectGrader
from germane.judges import FakeJudge
from germane.measures import Measure
from germane.questions import AnyQuestion, Relevance
from germane.types import Context, FrozenDict, Json, Message, Sample, Status, ToolCall
from tests.addons.agentv.running import graded, judge_of, told
from tests.server import Act, ModelServer

PRECISION = Measure.parse("context_precision")


def case(response: str | None = "Four minutes.", expected: Any = None, **given: Any) -> Case:
    messages = () if expected is None else (Message(role="assistant", content=expected),)
    return Case(
        sample=Sample(id="1", query="How long?", response=response, **given), expected_messages=messages
    )


def reported(**metadata: Any) -> Case:
    """A case whose target reported this."""
    return case(metadata=FrozenDict(metadata))


def called(*calls: str | tuple[str, dict[str, Any]]) -> Case:
    """A case whose agent called these tools."""
    made = [
        ToolCall(tool=one) if isinstance(one, str) else ToolCall(tool=one[0], input=one[1]) for one in calls
    ]
    return case(messages=(Message(role="assistant", content="ok", tool_calls=tuple(made)),))


class Given(DirectGrader):
    """A grader with a result of its own."""

    type: ClassVar[str] = "given"
    result: GraderResult

    def check(self, _: Case) -> GraderResult:
        return self.result


def given(name: str, score: float | None = None, why: str = "", **more: Any) -> Given:
    status: Status = "ok" if score is not None else more.pop("status", "error")
    return Given(name=name, result=GraderResult(score=score, status=status, why=why or None), **more)


class TestFieldAccuracy:
    def score(self, rule: dict[str, Any], answer: Any, expected: Any) -> GraderResult:
        grader = FieldAccuracy(fields=(FieldRule(path="a", **rule),))
        return graded(grader, case(json.dumps({"a": answer}), {"a": expected}))

    @pytest.mark.parametrize(
        ("answer", "expected", "score"),
        [
            (1, 1.0, 1),
            (1, True, 0),
            (None, None, 1),
            ([1, {"b": 2}], [1, {"b": 2}], 1),
            ("x", "X", 0),
            ({}, [], 0),
        ],
    )
    def test_exact_counts_types(self, answer: Any, expected: Any, score: float) -> None:
        """1 is 1.0; it is neither true nor "1"."""
        assert self.score({}, answer, expected).score == score

    @pytest.mark.parametrize(
        ("answer", "rule", "score"),
        [
            ("10.4", {"tolerance": 0.5}, 1),
            ("10.4 kg", {"tolerance": 0.5}, 0),
            (10.5, {"tolerance": 0.5}, 1),
            (10.51, {"tolerance": 0.5}, 0),
            (10.5, {"tolerance": 0.05, "relative": True}, 1),
            (True, {"tolerance": 9}, 0),
        ],
    )
    def test_numbers_are_held_against_a_tolerance(
        self, answer: Any, rule: dict[str, Any], score: float
    ) -> None:
        """A text must be a number as a whole."""
        assert self.score({"match": "numeric_tolerance", **rule}, answer, 10).score == score

    def test_relative_to_zero_is_absolute(self) -> None:
        """There is no share of nothing."""
        assert (
            self.score({"match": "numeric_tolerance", "tolerance": 0.1, "relative": True}, 0.1, 0).score == 1
        )

    @pytest.mark.parametrize(
        ("text", "formats", "day"),
        [
            ("03/04/2025", ("DD/MM/YYYY",), "2025-04-03"),
            ("03/04/2025", ("MM/DD/YYYY",), "2025-03-04"),
            ("03/04/2025", (), "2025-03-04"),
            ("15/01/2025", (), "2025-01-15"),
            ("15-JAN-2025", (), "2025-01-15"),
            ("January 15, 2025", (), "2025-01-15"),
            ("2025-01-15T23:30:00-05:00", (), "2025-01-15"),
            ("2025/01/15", (), "2025-01-15"),
            ("on 15.01.2025", ("[on] DD.MM.YYYY", "on DD.MM.YYYY"), "2025-01-15"),
            ("2025-02-30", (), None),
            ("soon", (), None),
        ],
    )
    def test_dates_are_read_by_their_formats_first(
        self, text: str, formats: tuple[str, ...], day: str | None
    ) -> None:
        """Then as ISO, by the month's name, or in numbers."""
        found = date_in(text, formats)
        assert (None if found is None else found.isoformat()) == day

    def test_the_original_reads_ambiguous_dates_month_first_whatever_the_formats(self) -> None:
        """Which `compatibility` keeps."""
        rule = FieldRule(path="a", match="date", formats=("DD/MM/YYYY",))
        asked = case('{"a": "03/04/2025"}', {"a": "2025-04-03"})
        assert graded(FieldAccuracy(fields=(rule,)), asked).score == 1
        assert graded(FieldAccuracy(fields=(rule,), compatibility="agentv"), asked).score == 0

    def test_a_missing_required_field_scores_0_and_an_optional_one_is_left_out(self) -> None:
        """Of three fields one is missing and required, one missing and optional."""
        fields = (FieldRule(path="a"), FieldRule(path="b"), FieldRule(path="c", required=False))
        found = graded(FieldAccuracy(fields=fields), case('{"a": 1}', {"a": 1, "b": 1, "c": 1}))
        assert found.score == 0.5
        assert found.misses == ("b (required, missing)",)

    def test_expected_data_may_be_a_text_of_json_or_the_reference(self) -> None:
        """The last message of the assistant that holds an object counts."""
        grader = FieldAccuracy(fields=(FieldRule(path="a.b[1]"),))
        answer = '{"a": {"b": [1, 2]}}'
        assert graded(grader, case(answer, f"Here: ```json\n{answer}\n```")).score == 1
        assert graded(grader, case(answer, reference=answer)).score == 1
        found = graded(grader, case(answer))
        assert (found.status, found.score) == ("skipped", None)

    def test_an_answer_that_is_no_json_scores_0(self) -> None:
        """That is a bad answer, not missing data."""
        found = graded(FieldAccuracy(fields=(FieldRule(path="a"),)), case("sorry", {"a": 1}))
        assert (found.score, found.misses) == (0, ("Failed to parse candidate answer as JSON",))


class TestToolTrajectory:
    def score(self, asked: Case, **options: Any) -> GraderResult:
        return graded(ToolTrajectory(**options), asked)

    def test_an_extra_call_at_the_end_is_a_miss_of_exact(self) -> None:
        """Two of three positions are right."""
        found = self.score(called("a", "b", "c"), mode="exact", expected=[{"tool": "a"}, {"tool": "b"}])
        assert found.score == pytest.approx(2 / 3)
        assert found.misses == ("Expected 2 tool calls, got 3",)

    @pytest.mark.parametrize(
        ("mode", "score"), [("in_order", 1), ("superset", 1), ("exact", 0), ("subset", 0)]
    )
    def test_an_empty_list_of_expected_calls(self, mode: str, score: float) -> None:
        """Nothing that must be there is missing; only exact and subset mind calls that nobody expected."""
        assert self.score(called("a"), mode=mode, expected=[]).score == score

    def test_superset_and_subset_do_not_look_at_the_order(self) -> None:
        """The first asks for what was made, the second for what was allowed."""
        expected = [{"tool": "a"}, {"tool": "b"}]
        assert self.score(called("b", "c", "a"), mode="superset", expected=expected).score == 1
        assert self.score(called("b", "c"), mode="subset", expected=expected).score == 0.5
        assert self.score(called(), mode="subset", expected=expected).score == 1

    def test_without_messages_nothing_is_known(self) -> None:
        """Skipped; the original scores 0."""
        assert self.score(case(), mode="any_order", minimums={"a": 1}).status == "skipped"
        found = self.score(case(), mode="any_order", minimums={"a": 1}, compatibility="agentv")
        assert (found.score, found.misses) == (0, ("No trace available for evaluation",))

    def test_a_summary_that_the_target_reports_is_enough_for_counts(self) -> None:
        """Of the order it says nothing."""
        asked = reported(trace_summary={"tool_calls_by_name": {"a": 2}})
        assert self.score(asked, mode="any_order", minimums={"a": 2}).score == 1
        assert self.score(asked, mode="in_order", expected=[{"tool": "a"}]).status == "skipped"


class TestLimits:
    @pytest.mark.parametrize(
        ("grader", "metadata", "score"),
        [
            (Latency(threshold=20), {"duration_ms": 20}, 1),
            (Latency(threshold=19), {"ms": 20}, 0),
            (Cost(budget=0.5), {"cost_usd": 0.5}, 1),
            (Cost(budget=0.5), {"trace_summary": {"cost_usd": 0.6}}, 0),
            (TokenUsage(max_total=16), {"token_usage": {"input": 10, "output": 5, "cached": 1}}, 1),
            (TokenUsage(max_total=15), {"token_usage": {"input": 10, "output": 5, "cached": 1}}, 0),
        ],
    )
    def test_what_is_within_scores_1(
        self, grader: DirectGrader, metadata: dict[str, Any], score: float
    ) -> None:
        """The limit itself is within."""
        found = graded(grader, reported(**metadata))
        assert found.score == score
        assert bool(found.misses) == (score < 1)

    @pytest.mark.parametrize(
        ("limits", "usage", "score", "why"),
        [
            ({"max_output": 5}, {"input": 10}, None, "output tokens not reported"),
            ({"max_input": 5}, {"output": 10}, None, "input tokens not reported"),
            ({"max_total": 50}, {"input": 10}, None, "output tokens not reported"),
            ({"max_input": 50}, {"input": 10}, 1, "output=unknown"),
            ({"max_total": 5}, {"input": 10}, 0, "output=unknown"),  # whatever the rest is
            ({"max_input": 5, "max_output": 5}, {"input": 10}, 0, "output=unknown"),
        ],
    )
    def test_unknown_tokens_are_not_0(
        self, limits: dict[str, Any], usage: dict[str, int], score: float | None, why: str
    ) -> None:
        """Skipped where they could change the score."""
        found = graded(TokenUsage(**limits), reported(token_usage=usage))
        assert found.score == score
        assert why in (found.why or found.reasoning)

    @pytest.mark.parametrize("grader", [Latency(threshold=1), Cost(budget=1), TokenUsage(max_total=1)])
    def test_without_data_they_are_skipped(self, grader: DirectGrader) -> None:
        """Never a silent 0; the original scores 0."""
        found = graded(grader, case())
        assert (found.score, found.status) == (None, "skipped")
        assert found.why
        assert graded(grader.model_copy(update={"compatibility": "agentv"}), case()).score == 0


@pytest.mark.parametrize(
    ("test", "value", "passes"),
    [
        ("contains", "four", False),
        ("icontains", "four", True),
        ("starts_with", " Four", True),
        ("ends_with", "minutes", False),
        ("equals", "Four minutes. ", True),
        ("regex", r"^Four \w+\.$", True),
        ("is_json", "", False),
    ],
)
def test_text_assertions(test: Any, value: str, passes: bool) -> None:
    """1 or 0, with a sentence."""
    found = graded(TextAssertion(test=test, value=value), case())
    assert (found.score, found.verdict) == ((1, "pass") if passes else (0, "fail"))
    (message,) = (*found.hits, *found.misses)
    assert value in message


@pytest.mark.parametrize(
    "grader",
    [
        TextAssertion(test="contains", value="x"),
        TextAssertion(test="regex", value="x"),
        FieldAccuracy(fields=(FieldRule(path="a"),)),
        LLMGrader(prompt="Rate {{output}}."),
        LLMGrader(prompt="Rate {{output_messages}}."),
        LLMGrader(rubrics=(RubricItem(id="a", description="It is right."),)),
    ],
    ids=lambda grader: grader.label,
)
def test_an_answer_that_is_not_known_is_not_graded(grader: Any) -> None:
    """Skipped, and no judge is asked; an answer that is empty is one."""
    unknown = graded(grader, case(None, expected={"a": 1}))
    assert (unknown.status, unknown.why, unknown.score) == ("skipped", "the sample has no response", None)
    if not isinstance(grader, LLMGrader):
        assert graded(grader, case("", expected={"a": 1})).score in {0, 1}


@pytest.mark.parametrize("pattern", ["(a|aa)+$", r"^(\w+\s?)*$", "(.*)*x{3}b"])
def test_a_regular_expression_has_a_time_limit(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that would never end is an error of that score, which names the pattern; or it ends at once."""
    monkeypatch.setattr("germane.addons.agentv.graders.rules.PATTERN_SECONDS", 0.05)
    began = time.monotonic()
    found = graded(TextAssertion(test="regex", value=pattern), case(f"{'a' * 5000}!"))
    assert time.monotonic() - began < 5
    if found.score is None:
        assert found.why == f"the regular expression {pattern!r} was stopped after 0.05 s on this answer"
    assert (found.status == "error") == (found.score is None)


def test_no_checks_are_no_score() -> None:
    """Skipped, as other graders that have nothing to look at."""
    result = GraderResult.of_checks([], "limits kept")
    assert (result.score, result.status, result.why) == (
        None,
        "skipped",
        "the case has nothing that this grader can check",
    )


class Own(DirectGrader):
    """A grader of the user's own, whose check returns what it likes."""

    type: ClassVar[str] = "own"
    returns: Any = None

    def check(self, _: Case) -> Any:
        return self.returns


@pytest.mark.parametrize(
    ("returned", "score", "verdict"),
    [
        (True, 1.0, "pass"),
        (False, 0.0, "fail"),
        (1, 1.0, "pass"),
        (0.7, 0.7, "borderline"),
        (np.float64(0.5), 0.5, "fail"),
        (np.bool_(True), 1.0, "pass"),
        (GraderResult(score=0.9, verdict="fail"), 0.9, "fail"),
    ],
)
def test_a_check_returns_a_bool_a_number_or_a_result(returned: Any, score: float, verdict: str) -> None:
    """Each is a score with a verdict; a composite takes it as any other."""
    found = graded(Own(returns=returned), case())
    assert (found.score, found.verdict) == (score, verdict)
    assert graded(Composite(graders=(Own(returns=returned),)), case()).score == score


@pytest.mark.parametrize("returned", [None, 2, -0.1, "yes", float("nan"), (1,), 10**400])
def test_a_check_that_returns_no_score_is_an_error(returned: Any) -> None:
    """Of that score; it says what a check may return."""
    found = graded(Own(returns=returned), case())
    assert (found.score, found.status) == (None, "error")
    assert "check of own must return True, False, a number from 0 to 1 or a GraderResult" in str(found.why)


def test_an_option_that_may_change_is_refused_at_once() -> None:
    """Graders are told apart by their options, which a list or a dict does not allow."""
    with pytest.raises(
        InputError, match=r"own: an option has a value that is not hashable: .* 'list'; give a tuple"
    ):
        Own(returns=["a"])


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (
            GraderResult(score=math.nan),
            " returned the status ok and the score nan; return a score from 0 to 1",
        ),
        (GraderResult(score=1.5), "the score the number 1.5"),
        (GraderResult(score=None), "the status ok and the score null"),
        (GraderResult(score=0.5, status="error"), "the status error and the score the number 0.5"),
        (GraderResult(score="1"), " raised TypeError"),  # type: ignore[arg-type]  # as a user may
        (ZeroDivisionError("no words"), " raised ZeroDivisionError: no words"),
    ],
    ids=str,
)
def test_a_fault_in_a_grader_is_one_samples_error(returned: Any, why: str) -> None:
    """As one in a measure is: other samples and other graders keep their scores."""

    class Sometimes(Own):
        def check(self, one: Case) -> Any:
            if one.sample.id != "bad":
                return True
            if isinstance(returned, Exception):
                raise returned
            return self.returns

    samples = [{"id": name, "query": "q", "response": "r"} for name in ("good", "bad")]
    good, bad = evaluate(samples, [Sometimes(returns=returned)]).scores()
    assert good.value == 1.0
    assert (bad.status, why in str(bad.why)) == ("error", True)


class TestComposite:
    def test_weights_are_the_graders_own_unless_the_aggregator_names_them(self) -> None:
        """A weighs 3 of 4, or 1 of 2."""
        members = (given("a", 1.0, weight=3), given("b", 0.0))
        assert graded(Composite(graders=members), case()).score == 0.75
        named = Aggregator(weights=FrozenDict({"a": 1}))
        assert graded(Composite(graders=members, aggregator=named), case()).score == 0.5

    def test_a_skipped_member_is_left_out_and_a_failed_one_leaves_bounds(self) -> None:
        """Nobody knows what the failed one would have given: the mean lies between both ends."""
        skipped = given("s", None, "no data", status="skipped")
        found = graded(Composite(graders=(given("a", 1.0), skipped)), case())
        assert found.score == 1
        found = graded(Composite(graders=(given("a", 1.0), given("e", None, "broke"), skipped)), case())
        assert (found.status, found.score, found.bounds) == ("incomplete", None, (0.5, 1.0))
        assert "e: broke" in str(found.why)
        assert graded(Composite(graders=(skipped,)), case()).status == "skipped"
        assert graded(Composite(graders=(given("e", None, "broke"),)), case()).status == "error"

    def test_no_weight_at_all_is_skipped(self) -> None:
        """There is no mean; the original scores 0."""
        assert graded(Composite(graders=(given("a", 1.0, weight=0),)), case()).status == "skipped"

    def test_threshold_is_the_share_that_passes(self) -> None:
        """Two of three pass."""
        members = (given("a", 1.0), given("b", 0.8), given("c", 0.7))
        grader = Composite(graders=members, aggregator=Aggregator(type="threshold", threshold=0.6))
        found = graded(grader, case())
        assert found.score == pytest.approx(2 / 3)
        assert found.verdict == "pass"
        assert found.hits[0] == "2/3 evaluators passed (threshold: 0.6)"

    def test_composites_nest(self) -> None:
        """The inner one is a member like any other, its members in the details."""
        inner = Composite(name="inner", graders=(given("a", 1.0), given("b", 0.0)))
        found = graded(Composite(graders=(inner, given("c", 1.0))), case())
        assert found.score == 0.75
        assert [one["name"] for one in told(found)["graders"][0]["details"]["graders"]] == ["a", "b"]

    def test_a_model_puts_the_results_together(self) -> None:
        """It is shown what each member said; the members' own questions were asked before."""
        with ModelServer(
            answer={"llm_judge": {"score": 0.7, "hits": ["h"], "misses": [], "reasoning": "so"}}
        ) as server:
            how = Aggregator(type="llm_judge", prompt="Weigh: {{EVALUATOR_RESULTS_JSON}}")
            found = graded(Composite(graders=(given("a", 1.0),), aggregator=how), case(), judge_of(server))
            (asked,) = server.asked
        assert (found.score, found.verdict, found.hits) == (0.7, "borderline", ("h",))
        assert '"a"' in asked.user

    def test_the_answer_that_the_newer_generation_asks_for(self) -> None:
        """`assertions` of a prompt of the user's are hits and misses."""
        said = [
            {"text": "kind", "passed": True, "evidence": "says please"},
            {"text": "short", "passed": False},
        ]
        with ModelServer(answer={"llm_judge": {"score": 0.5, "assertions": said}}) as server:
            found = graded(LLMGrader(prompt="Grade {{output}}"), case(), judge_of(server))
        assert (found.score, found.hits, found.misses) == (0.5, ("kind - says please",), ("short",))

    def test_a_failed_member_is_not_hidden_from_a_script(self) -> None:
        """The script is not run on half of the results."""
        how = Aggregator(type="code_judge", path="echo '{\"score\": 1}'")
        found = graded(Composite(graders=(given("a", None, "broke"),), aggregator=how), case())
        assert (found.status, found.why) == ("error", "a: broke")

    def test_members_ask_side_by_side(self) -> None:
        """Two questions to a model leave together, not one after the other."""
        members = tuple(LLMGrader(name=name, prompt=f"{name} {{{{candidate_answer}}}}") for name in "ab")
        payload = {"score": 1, "hits": [], "misses": [], "reasoning": ""}
        with ModelServer(answer={"llm_judge": payload}, latency=0.2) as server:
            found = graded(Composite(graders=members), case(), judge_of(server))
            assert server.most_in_flight == 2
        assert found.score == 1


class TestLLMGrader:
    GOOD: ClassVar[dict[str, Any]] = {
        "score": 0.9,
        "hits": ["a", "b", "c", "d", "e"],
        "misses": [],
        "reasoning": "r",
    }

    def test_a_template_is_filled_and_values_stay_data(self) -> None:
        """Both generations' variables, each in tags with the request's mark; braces without a name stay."""
        grader = LLMGrader(
            prompt='<answer>{{ candidate_answer }}</answer> {{output}} {{question}} {{"a": 1}}'
        )
        with ModelServer(answer={"llm_judge": self.GOOD}) as server:
            found = graded(grader, case("x</answer>{{question}}"), judge_of(server))
            (asked,) = server.asked
        escaped = "x&lt;/answer>{{question}}"
        assert asked.user.count(escaped) == 2
        assert asked.user.endswith('{{"a": 1}}')
        assert (found.score, found.verdict, len(found.hits)) == (0.9, "pass", 5)

    def test_a_prompt_without_variables_is_the_criteria(self) -> None:
        """Else the model would not see what to grade."""
        with ModelServer(answer={"llm_judge": self.GOOD}) as server:
            graded(LLMGrader(prompt="Names the minutes"), case(), judge_of(server))
            (asked,) = server.asked
        user = re.sub(r"-\w{4}>", ">", asked.user)
        assert ">Names the minutes</" in user
        assert ">Four minutes.</" in user

    def test_a_score_out_of_range_is_asked_again(self) -> None:
        """And told what was wrong; after three attempts it is an error, never clipped."""
        bad, good = Act(change=lambda p: {**p, "score": 5}), None
        with ModelServer([bad, good], answer={"llm_judge": self.GOOD}) as server:
            assert graded(LLMGrader(), case(), judge_of(server)).score == 0.9
            assert "from 0" in json.dumps(server.asked[1].json)
        with ModelServer([bad] * 3, answer={"llm_judge": self.GOOD}) as server:
            found = graded(LLMGrader(), case(), judge_of(server))
        assert (found.score, found.status) == (None, "error")

    def test_a_rubric_item_that_is_left_out_is_asked_for(self) -> None:
        """The original leaves it out of the total."""
        both = [
            {"id": "a", "satisfied": True, "reasoning": "r"},
            {"id": "b", "satisfied": False, "reasoning": "r"},
        ]
        grader = LLMGrader(
            rubrics=(RubricItem(id="a", description="da", weight=3), RubricItem(id="b", description="db"))
        )
        payload = {"checks": both, "overall_reasoning": "all"}
        with ModelServer(
            [Act(change=lambda p: {**p, "checks": p["checks"][:1]}), None], answer={"rubric": payload}
        ) as server:
            found = graded(grader, case(), judge_of(server))
            assert server.count == 2
        assert (found.score, found.verdict) == (0.75, "fail")
        assert (found.hits, found.misses) == (("[a] da: r",), ("[b] db: r",))


class TestMeasureGrader:
    def sample(self, *grades: int) -> Case:
        contexts = tuple(Context(text=str(n)) for n in grades)
        return Case(sample=Sample(id="1", query="q", contexts=contexts, qrels=FrozenDict({"d": 1})))

    def judge(self) -> FakeJudge:
        def answer(question: AnyQuestion) -> Json:
            assert isinstance(question, Relevance)
            return {"reasoning": "why", "grade": int(question.passage)}

        return FakeJudge(answer)

    def test_a_measure_with_its_words(self) -> None:
        """Hits, misses, what is misranked, and the one line."""
        found = graded(MeasureGrader(measure=PRECISION), self.sample(3, 0, 2), self.judge())
        assert found.score == pytest.approx(5 / 6)
        assert found.hits == ("Position 1: Relevant - why", "Position 3: Relevant - why")
        assert found.misses == (
            "Position 2: Not relevant - why",
            "Position 3: Relevant but ranked below irrelevant ones",
        )
        assert found.reasoning == "2/3 chunks relevant, precision score: 0.83"
        assert [check["position"] for check in told(found)["relevance_checks"]] == [1, 2, 3]

    def test_strict_and_an_expected_count(self) -> None:
        """The verdict fails and the score stays; too few relevant contexts are a miss."""
        grader = MeasureGrader(measure=PRECISION, strict=True, expected_relevant_count=2)
        found = graded(grader, self.sample(3, 0), self.judge())
        assert (found.score, found.verdict) == (1, "fail")
        assert "Expected 2 relevant contexts, found 1" in found.misses

    def test_gold_labels_are_explained_and_counted_too(self) -> None:
        """Nobody is asked, and the places are named all the same: strict and the expected count hold over gold."""
        contexts = (Context(id="a", text="one"), Context(id="b", text="two"))
        gold = case(contexts=contexts, qrels=FrozenDict(a=1))
        grader = MeasureGrader(measure=Measure.parse("P@2"), strict=True, expected_relevant_count=1)
        found = graded(grader, gold)
        assert (found.score, found.verdict) == (0.5, "fail")
        assert found.hits == ("Position 1: Relevant - gold grade 1",)
        assert found.misses == ("Position 2: Not relevant - unjudged",)

    def test_contexts_of_the_grader_stand_in_the_place_of_what_was_retrieved(self) -> None:
        """An explicit retrieval_context."""
        grader = MeasureGrader(measure=PRECISION, contexts=("3",))
        assert graded(grader, self.sample(0, 0), self.judge()).score == 1

    def test_nothing_retrieved(self) -> None:
        """The documents' words; what is not known is skipped, or AgentV's 0."""
        found = graded(MeasureGrader(measure=PRECISION), self.sample(), self.judge())
        assert (found.score, found.misses) == (0, ("No context retrieved",))
        assert found.reasoning == "Cannot evaluate contextual precision without retrieved chunks"
        unknown = Case(sample=Sample(id="1", query="q", response="?"))
        assert graded(MeasureGrader(measure=PRECISION), unknown, self.judge()).status == "skipped"
        theirs = MeasureGrader(measure=PRECISION, compatibility="agentv")
        found = graded(theirs, unknown, self.judge())
        assert (found.score, found.misses) == (0, ("No retrieved context found in candidate answer",))

    def test_a_judged_measure_inside_a_composite(self) -> None:
        """Its program is a member's like any other."""
        grader = Composite(
            graders=(
                MeasureGrader(measure=Measure.parse("context_position")),
                MeasureGrader(measure=PRECISION),
            )
        )
        found = graded(grader, self.sample(3), self.judge())
        assert found.score == 1
        assert grader.asks


def test_the_gate_of_a_grader() -> None:
    """`required` is 0.8, `min_score`, or the number itself."""
    assert Latency(threshold=1).gate is None
    assert Latency(threshold=1, required=True).gate == 0.8
    assert Latency(threshold=1, required=True, min_score=0.5).gate == 0.5
    assert Latency(threshold=1, required=0.3).gate == 0.3


def test_a_system_that_failed_is_an_error_of_its_graders() -> None:
    """Not a bad answer; a grader that needs no answer has none either."""
    found = graded(TextAssertion(test="contains", value="x"), case(None, error="target: timed out"))
    assert (found.status, found.why) == ("error", "target: timed out")


def test_mistakes_are_input_errors() -> None:
    """With what to write instead."""
    with pytest.raises(InputError, match=r"latency.* has no threshold; write"):
        Latency()  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"code_judge: timeout is the number 0"):
        CodeGrader(script="x", timeout=0)
    with pytest.raises(InputError, match="'a' occurs twice; give one"):
        Composite(graders=(given("a", 1.0), given("a", 0.0)))
