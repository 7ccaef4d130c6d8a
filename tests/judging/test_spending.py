"""Limits: never exceeded, reached as nearly as estimates allow, and nothing that was paid for is lost."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError, LimitReached
from germane.judges import LLMJudge
from germane.judges.judge import LocalJudge, Reply
from germane.judges.panel import PanelJudge, repeated
from germane.judging.asker import Asker
from germane.judging.spending import Budget, Spent, UsageLog, check_price
from germane.ledger.sqlite import SQLiteLedger
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.types import FrozenDict, Usage


class Paid(LocalJudge):
    """Costs a dime a question, and says beforehand that it might cost more."""

    name, stored, price = "paid", True, 0.1
    identity = FrozenDict(judge="paid")

    def __init__(self, concurrency: int = 4, estimate: float = 0.1, together: int = 1) -> None:
        self.concurrency, self.estimate, self.together = concurrency, estimate, together
        self.asked = 0

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        size = self.together
        return [tuple(questions[start : start + size]) for start in range(0, len(questions), size)]

    def forecast(self, questions: tuple[AnyQuestion, ...]) -> Usage:
        return Usage(requests=1, cost_usd=self.estimate * len(questions))

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        await asyncio.sleep(0.001)
        self.asked += len(questions)
        return [Reply(payload=q.typical(), usage=Usage(requests=1, cost_usd=0.1)) for q in questions]


def ask(judge: Paid, count: int, budget: Budget, ledger: SQLiteLedger | None = None) -> Asker:
    async def run() -> Asker:
        async with Asker(judge, ledger, budget=budget) as asker:
            await asker.judge([Relevance(query="q", passage=f"p{n}") for n in range(count)])
        return asker

    return asyncio.run(run())


@pytest.mark.parametrize("concurrency", [1, 4, 50])
def test_calls_stop_at_their_limit_exactly(tmp_path: Path, concurrency: int) -> None:
    """Not one more than allowed, whatever is in flight; all of them kept; as many as allowed is no stop."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    judge = Paid(concurrency)
    with pytest.raises(LimitReached, match="max_calls=7: 7 calls were made"):
        ask(judge, 20, Budget(max_calls=7), ledger)
    assert (judge.asked, len(ledger)) == (7, 7)
    assert ask(Paid(concurrency), 20, Budget(max_calls=13), ledger).spent.calls == 13


@pytest.mark.parametrize("concurrency", [1, 4, 50])
@pytest.mark.parametrize("estimate", [0.001, 0.02, 0.1, 0.3])
def test_cost_stops_before_its_limit(tmp_path: Path, concurrency: int, estimate: float) -> None:
    """However wrong estimates are: the first few answers show what answers cost. The limit is reached nearly."""
    judge = Paid(concurrency, estimate)
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    with pytest.raises(LimitReached, match=r"max_cost=1\.0:"):
        ask(judge, 50, Budget(max_cost=1.0), ledger)
    assert judge.asked == len(ledger)
    assert 9 <= judge.asked <= 10


@pytest.mark.parametrize("estimate", [0.02, 0.1, 0.3])
def test_a_limit_of_exactly_what_is_needed_is_enough(estimate: float) -> None:
    """Twenty dimes for twenty questions: an estimate that is somewhat too high stops nothing."""
    assert ask(Paid(8, estimate), 20, Budget(max_cost=2.0)).spent.calls == 20


@pytest.mark.parametrize("estimate", [0.02, 0.1, 0.26])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_what_an_answer_costs_is_not_spent_where_it_is_no_longer_left(
    concurrency: int, estimate: float
) -> None:
    """Every answer is a dime, and 1.05 is the limit: ten are asked, the eleventh is not, and that is no excess."""
    judge, budget = Paid(concurrency, estimate), Budget(max_cost=1.05)
    with pytest.raises(LimitReached, match=r"\$1\.0000 was spent"):
        ask(judge, 20, budget)
    assert judge.asked == 10
    assert not budget.exceeded


def test_one_request_shows_the_price_before_others_leave() -> None:
    """One that costs more than all that is allowed is the only one that leaves; the report says that it did."""
    judge = Paid(50, estimate=0.001)
    with pytest.raises(LimitReached, match=r"max_cost=0\.05: \$0\.1000 was spent"):
        ask(judge, 20, Budget(max_cost=0.05))
    assert judge.asked == 1
    sample = {"id": "q", "query": "q", "contexts": ["a"]}
    report = evaluate([sample], "context_precision@3", judge=Paid(4, 0.001), max_cost=0.05)
    assert report["context_precision@3"].n == 1
    assert report.verdict.exit_code == 3
    assert "$0.1000 was spent, more than max_cost=0.05" in report.verdict.reasons[0]


@pytest.mark.parametrize("limit", [float("inf"), float("nan"), -1.0])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    """No limit is None: a number that allows everything, or nothing at all, was not meant."""
    with pytest.raises(InputError, match="is not a number >= 0"):
        Budget(max_cost=limit)


@pytest.mark.parametrize(
    ("budget", "flag"), [(Budget(max_cost=0.04), "max_cost=0.04"), (Budget(max_calls=0), "max_calls=0")]
)
def test_a_limit_too_low_for_any_request_is_named(budget: Budget, flag: str) -> None:
    """Continuing with the same limit would get nowhere: the message says so."""
    with pytest.raises(LimitReached, match=f"{flag} is too low for the first request, so no call was made"):
        ask(Paid(), 5, budget)
    assert budget.too_low == flag


def test_a_group_that_does_not_fit_is_cut_down() -> None:
    """Groups of three under a limit of five: of the second two are asked, and a limit of one asks one."""
    for limit, made in ((5, "5 calls were made"), (1, "1 call was made")):
        judge = Paid(together=3)
        with pytest.raises(LimitReached, match=f"max_calls={limit}: {made}"):
            ask(judge, 6, Budget(max_calls=limit))
        assert judge.asked == limit


class Closed(Paid):
    """Three answers, one failure that was paid for, then a closed door: nothing more is sent."""

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        replies = await super().answer(questions)
        if self.asked <= 3:
            return replies
        usage = Usage(requests=1, cost_usd=0.1) if self.asked == 4 else Usage()
        return [Reply(error="no answer", usage=usage) for _ in questions]


def test_a_question_that_was_never_sent_is_no_call(tmp_path: Path) -> None:
    """It is a failure, in this session and the next, and uses no limit up; what was sent and failed is a call."""
    judge, usage_log = Closed(1), UsageLog(tmp_path / "session")

    async def run() -> Asker:
        with closing(usage_log):
            async with Asker(judge, usage_log=usage_log, budget=Budget(max_calls=5)) as asker:
                await asker.judge([Relevance(query="q", passage=f"p{n}") for n in range(20)])
        return asker

    spent = asyncio.run(run()).spent
    assert (spent.calls, spent.requests, spent.errors, judge.asked) == (4, 4, 17, 20)
    assert (UsageLog(tmp_path / "session", usage_log.sessions).earlier.calls, len(usage_log.failed)) == (
        4,
        17,
    )


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", '{"id": "x", "calls": 9}'])
def test_the_cost_of_a_killed_session_is_known(tmp_path: Path, damaged: str) -> None:
    """Its counts stand in the file, and not in the manifest, where it stands without any; a file that is damaged is passed over."""
    path = tmp_path / "session"
    judge, asked = Paid(), [Relevance(query="q", passage=f"p{n}") for n in range(4)]

    async def session(usage_log: UsageLog, questions: Sequence[AnyQuestion], ledger: SQLiteLedger) -> Spent:
        with closing(usage_log):
            async with Asker(judge, ledger, usage_log=usage_log) as asker:
                await asker.judge(questions)
        return asker.spent

    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        asyncio.run(session(UsageLog(), asked[3:], ledger))  # of another evaluation
        first = UsageLog(path)
        begun = first.sessions
        asyncio.run(session(first, asked[:2], ledger))
        again = UsageLog(path, begun)
        assert (again.earlier.calls, round(again.earlier.cost_usd, 6)) == (2, 0.2)
        spent = asyncio.run(session(again, asked, ledger))
        assert (spent.calls, spent.cached) == (1, 1)
        third = UsageLog(path, again.sessions)
        assert (third.earlier.calls, [row["calls"] for row in third.sessions]) == (3, [2, 1, 0])
    path.write_text(damaged)
    assert UsageLog(path, begun).earlier.calls == 0


def test_what_is_known_costs_nothing(tmp_path: Path) -> None:
    """A replay passes under a limit of nothing."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    ask(Paid(), 10, Budget(), ledger)
    assert ask(Paid(), 10, Budget(max_cost=0.0, max_calls=0), ledger).spent.cached == 10


def test_a_limit_in_dollars_needs_a_price() -> None:
    """Nobody knows what a local model costs: refused at once, also on a panel, naming the other limit."""
    judge = LLMJudge("openai:test", base_url="http://127.0.0.1:9/v1", api_key="x")
    panel = PanelJudge(repeated(judge, 2))
    for one in (judge, panel):
        check_price(one, None)
        with pytest.raises(InputError, match=r"max_cost cannot be checked.*or use max_calls"):
            check_price(one, 1.0)


def test_limits_hold_in_python() -> None:
    """evaluate(max_calls=) raises LimitReached, evaluate(max_cost=) refuses a judge without a price."""
    sample = {"id": "q", "query": "q", "contexts": ["a", "b", "c"]}
    with pytest.raises(LimitReached):
        evaluate([sample], "context_precision@3", judge=Paid(1), max_calls=2)
    with pytest.raises(InputError):
        evaluate(
            [sample],
            "context_precision@3",
            judge=LLMJudge("openai:test", base_url="http://127.0.0.1:9/v1", api_key="x"),
            max_cost=1.0,
        )
