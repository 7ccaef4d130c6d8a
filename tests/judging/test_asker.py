"""The asker: asks each question once, commits before it answers, survives failures."""

import asyncio
import random
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import pytest
from msgspec.structs import replace

from germane.errors import Interrupted, JudgeError, LedgerError
from germane.folder.files import earlier_judgements
from germane.judges.judge import Judge, LocalJudge, Reply, with_defaults
from germane.judges.panel import PanelJudge
from germane.judging.asker import Asker
from germane.ledger.sqlite import SQLiteLedger
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.tables.judgements import judgement_line
from germane.types import FrozenDict, Judgement, Usage


class Counting(LocalJudge):
    """Answers after a moment, and remembers what it was asked, in groups."""

    name = "counting"
    stored = True

    def __init__(self, concurrency: int = 4, seconds: float = 0.0) -> None:
        self.concurrency, self.seconds = concurrency, seconds
        self.asked: list[tuple[AnyQuestion, ...]] = []
        self.running = self.most = 0

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        return [(question,) for question in questions]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        self.asked.append(questions)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        return [self.reply(question) for question in questions]

    def reply(self, question: AnyQuestion) -> Reply:
        return Reply(payload=question.typical(), usage=Usage(requests=1, input_tokens=7))


def relevance(n: int) -> Relevance:
    return Relevance(query="q", passage=f"passage {n}")


def ask(judge: Counting, questions: Sequence[AnyQuestion], ledger: SQLiteLedger | None = None) -> Asker:
    async def run() -> Asker:
        async with Asker(judge, ledger) as asker:
            await asker.judge(questions)
        return asker

    return asyncio.run(run())


def test_equal_questions_are_asked_once() -> None:
    """Two equal questions in flight share one answer: no earlier evaluation paid for it, so it is not cached."""
    judge = Counting()
    asker = ask(judge, [relevance(1), relevance(1), relevance(2)])
    assert len(judge.asked) == 2
    assert (asker.spent.calls, asker.spent.shared, asker.spent.cached) == (2, 1, 0)


def test_what_comes_again_is_shared_whether_it_was_asked_or_known(tmp_path: Path) -> None:
    """An answer counts as cached once; when it is needed again in the same evaluation it is shared."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    ask(Counting(), [relevance(1)], ledger)

    async def run() -> Asker:
        async with Asker(Counting(), ledger) as asker:
            await asker.judge([relevance(1), relevance(1), relevance(2)])
            await asker.judge([relevance(1), relevance(2)])
        return asker

    spent = asyncio.run(run()).spent
    assert (spent.calls, spent.shared, spent.cached) == (1, 3, 1)


def test_a_second_asker_asks_nothing(tmp_path: Path) -> None:
    """What stands in the ledger is not asked again, and costs nothing."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    questions = [relevance(n) for n in range(250)]
    ask(Counting(), questions, ledger)
    judge = Counting()
    asker = ask(judge, questions, ledger)
    assert judge.asked == []
    assert (asker.spent.calls, asker.spent.cached, asker.spent.input_tokens) == (0, 250, 0)


def test_no_more_groups_in_flight_than_the_judge_takes() -> None:
    """The judge's concurrency is a limit, and it is used."""
    judge = Counting(concurrency=3, seconds=0.01)
    ask(judge, [relevance(n) for n in range(12)])
    assert judge.most == 3


def test_an_answer_is_durable_before_it_is_seen(tmp_path: Path) -> None:
    """Whoever waits for an answer finds it in the ledger through another connection."""
    path = tmp_path / "l.sqlite"
    ledger, other = SQLiteLedger(path), SQLiteLedger(path)

    async def run() -> None:
        async with Asker(Counting(), ledger) as asker:
            for n in range(5):
                (answer,) = await asker.judge([relevance(n)])
                assert other.find([answer.judgement.key])[answer.judgement.key] == answer.judgement

    asyncio.run(run())


def test_without_a_ledger_an_answer_is_remembered_all_the_same() -> None:
    """What was answered, or has failed, is not asked again later in the same evaluation."""
    judge = Failing()

    async def run() -> Asker:
        async with Asker(judge) as asker:
            await asker.judge([relevance(1), relevance(3)])
            await asker.judge([relevance(1), relevance(3)])
        return asker

    asker = asyncio.run(run())
    assert len(judge.asked) == 2
    assert (asker.spent.calls, asker.spent.shared, asker.spent.cached) == (2, 2, 0)


class Moody(Counting):
    """Another grade each time: only the ledger can make two evaluations agree."""

    def reply(self, question: AnyQuestion) -> Reply:
        return Reply(payload={"reasoning": "", "grade": random.randint(0, 3)})


class Failing(Counting):
    def reply(self, question: AnyQuestion) -> Reply:
        if "1" in question.about:
            return Reply(error="the judge is having a bad day", usage=Usage(requests=1))
        return (
            Reply(payload={"grade": 9, "reasoning": ""}) if "2" in question.about else super().reply(question)
        )


def test_one_failure_is_one_judgement(tmp_path: Path) -> None:
    """A failed and an unusable answer are judgements with errors; others are unharmed and only they are kept."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")

    async def run() -> list[str | None]:
        async with Asker(Failing(), ledger) as asker:
            return [answer.judgement.error for answer in await asker.judge([relevance(n) for n in range(4)])]

    first, second, third, fourth = asyncio.run(run())
    assert first is None
    assert second == "the judge is having a bad day"
    assert third is not None
    assert '"grade": Input should be less than or equal to 3, not 9' in third
    assert fourth is None
    assert len(ledger) == 2


class Dead(Counting):
    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        if len(self.asked) >= 2:
            raise JudgeError("no such model")
        return await super().answer(questions)


def test_a_judge_that_cannot_be_used_ends_the_asking_and_keeps_what_was_answered(tmp_path: Path) -> None:
    """JudgeError reaches the caller; the two answers before it are in the ledger."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    with pytest.raises(JudgeError, match="no such model"):
        ask(Dead(concurrency=1), [relevance(n) for n in range(6)], ledger)
    assert len(ledger) == 2


class Stopping(Counting):
    """Stops the asker while its second question is in flight."""

    asker: Asker

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        if len(self.asked) == 1:
            asyncio.get_running_loop().call_soon(self.asker.stop)
        return await super().answer(questions)


def ask_until_stopped(judge: Stopping, ledger: SQLiteLedger) -> None:
    """Ask ten questions of a judge that stops its asker: Interrupted is raised, and two were asked."""

    async def run() -> None:
        async with Asker(judge, ledger) as asker:
            judge.asker = asker
            await asker.judge([relevance(n) for n in range(10)])

    with pytest.raises(Interrupted):
        asyncio.run(run())
    assert len(judge.asked) == 2


def test_stopping_finishes_what_is_in_flight_and_keeps_it(tmp_path: Path) -> None:
    """After a stop nothing new is asked; what was in flight is committed."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    judge = Stopping(concurrency=2, seconds=0.05)
    ask_until_stopped(judge, ledger)
    assert len(ledger) == 2


def test_a_judge_that_fails_after_a_stop_does_not_change_its_reason(tmp_path: Path) -> None:
    """Who stops a run whose server hangs reads that it was stopped, not that the server did not answer."""

    class Hanging(Stopping):
        async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
            replies = await super().answer(questions)
            if len(self.asked) == 2:
                raise JudgeError("no answer within 120 s")
            return replies

    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    judge = Hanging(concurrency=2, seconds=0.05)
    ask_until_stopped(judge, ledger)


class TestInCompany:
    """Two askers on one ledger, as two processes have them: each its own connection."""

    def test_two_evaluations_at_once_agree(self, tmp_path: Path) -> None:
        """Each asks what the other has not answered yet; the first committed answer holds in both."""
        path, questions = tmp_path / "l.sqlite", [relevance(n) for n in range(40)]
        judges = [Moody(seconds=0.02), Moody(seconds=0.02)]

        async def one(judge: Counting) -> Sequence[object]:
            with SQLiteLedger(path) as ledger:
                async with Asker(judge, ledger) as asker:
                    return [answer.judgement for answer in await asker.judge(questions)]

        async def both() -> list[Sequence[object]]:
            return await asyncio.gather(*(one(judge) for judge in judges))

        first, second = asyncio.run(both())
        assert first == second
        assert sum(len(judge.asked) for judge in judges) > 40


def test_an_unusable_stored_answer_makes_room_for_the_next(tmp_path: Path) -> None:
    """A grade of 9, from wherever it came: asked again once, and the new answer stands from then on."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    judge = Counting()
    ask(judge, [relevance(1)], ledger)
    (row,) = ledger.db.execute("SELECT key FROM judgements").fetchone()
    (good,) = ledger.find([row]).values()
    ledger.put([replace(good, answer={"grade": 9, "reasoning": ""})], replacing=[good])
    ask(judge, [relevance(1)], ledger)
    assert len(judge.asked) == 2
    ask(judge, [relevance(1)], ledger)
    assert len(judge.asked) == 2
    assert ledger.find([good.key])[good.key].answer == good.answer


class TestGivingUp:
    def test_a_cancelled_caller_pays_for_nothing_more(self, tmp_path: Path) -> None:
        """Cancelled after a moment: what was in flight is finished and kept, nothing else is asked."""
        ledger, judge = SQLiteLedger(tmp_path / "l.sqlite"), Counting(seconds=0.6)

        async def run() -> None:
            async with asyncio.timeout(0.3):
                async with Asker(judge, ledger) as asker:
                    await asker.judge([relevance(n) for n in range(50)])

        with pytest.raises(TimeoutError):
            asyncio.run(run())
        assert len(judge.asked) == 4
        assert len(ledger) == 4

    def test_an_abort_gives_up_what_is_in_flight_and_keeps_what_was_answered(self, tmp_path: Path) -> None:
        """Answered and not committed yet: committed. In flight: not waited for."""
        ledger, judge = SQLiteLedger(tmp_path / "l.sqlite"), Slower()

        def abort(asker: Asker) -> None:
            if len(judge.asked) == 5:
                asker.abort()
            else:
                asyncio.get_running_loop().call_later(0.01, abort, asker)

        async def run() -> None:
            async with Asker(judge, ledger) as asker:
                abort(asker)
                await asker.judge([relevance(n) for n in range(8)])

        with pytest.raises(Interrupted):
            asyncio.run(asyncio.wait_for(run(), 60))
        assert (len(judge.asked), len(ledger)) == (5, 1)


class Slower(Counting):
    """The first answer comes at once, all others never."""

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        self.seconds = 3600 if self.asked else 0
        return await super().answer(questions)


class Odd(Counting):
    """Somebody's own judge, wrong in one way."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        self.wrong = wrong

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        replies = await super().answer(questions)
        if "passage 1" not in questions[0].about:
            return replies
        if self.wrong == "raises":
            raise ValueError("boom")
        if self.wrong == "cancels":
            raise asyncio.CancelledError
        odd = {
            "none": None,
            "few": [],
            "texts": ["relevant"],
            "object": [Reply(payload={"grade": object()})],
        }
        return odd[self.wrong]  # type: ignore[return-value]

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        groups = super().group(questions)
        ways: dict[str, list[tuple[AnyQuestion, ...]]] = {
            "drops": groups[1:],
            "twice": groups + groups[:1],
            "copies": [(copy(groups[0][0]),)],
        }
        return ways.get(self.wrong, groups)


def answers_of(judge: object, questions: Sequence[AnyQuestion]) -> list[Judgement]:
    """What a plain object answers as a judge."""

    async def run() -> list[Judgement]:
        whole = with_defaults(judge)
        async with Asker(whole) as asker:
            return [answer.judgement for answer in await asker.judge(questions)]

    return asyncio.run(run())


class TestSomebodysOwnJudge:
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ("raises", "ValueError: boom"),
            ("cancels", "cancelled its own task"),
            ("none", "'NoneType' object is not iterable"),
            ("few", "its answer() returned 0 replies to 1 question"),
            ("texts", "must return Reply objects, or payloads as dicts"),
            ("object", "not JSON serializable"),
        ],
    )
    def test_what_goes_wrong_in_it_is_an_error_of_its_questions(self, wrong: str, why: str) -> None:
        """The others are answered; the error names the judge."""

        async def run() -> list[str | None]:
            judge = Odd(wrong)
            async with Asker(judge) as asker:
                return [one.judgement.error for one in await asker.judge([relevance(n) for n in range(3)])]

        before, error, after = asyncio.run(run())
        assert (before, after) == (None, None)
        assert error is not None
        assert "the judge counting" in error
        assert why in error

    def test_a_plain_dict_is_the_payload_of_a_reply(self) -> None:
        """It is read as the payload is; one that the question cannot read is an error of that question."""

        class Plain:
            name = "plain"

            async def answer(self, questions: tuple[AnyQuestion, ...]) -> list[dict[str, object]]:
                return [
                    {"grade": 3, "reasoning": ""} if "passage 1" in one.about else {} for one in questions
                ]

        right, wrong = answers_of(Plain(), [relevance(1), relevance(2)])
        assert (right.error, wrong.answer) == (None, None)
        assert wrong.error is not None

    def test_an_answer_that_is_no_coroutine_is_said_so(self) -> None:
        """The message says what to write."""

        class Sync:
            name = "sync"

            def answer(self, _questions: tuple[AnyQuestion, ...]) -> list[Reply]:
                return [Reply(payload={"grade": 3})]

        (judgement,) = answers_of(Sync(), [relevance(1)])
        assert "can't be used in 'await' expression" in str(judgement.error)

    @pytest.mark.parametrize("wrong", ["drops", "twice", "copies"])
    def test_groups_of_other_questions_are_refused(self, wrong: str) -> None:
        """Nobody waits for a question that was left out."""
        with pytest.raises(JudgeError, match=r"the judge counting cannot group .* exactly once$"):
            ask(Odd(wrong), [relevance(n) for n in range(3)])


class Full(SQLiteLedger):
    """Takes what arrives until it has ten answers."""

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        if len(self) >= 10:
            raise LedgerError("the disk is full")
        return super().put(judgements, replacing=replacing)


@pytest.mark.parametrize("judge", [Counting(4, 0.01), Counting(1)])
def test_only_what_was_in_flight_is_lost_on_a_full_disk(tmp_path: Path, judge: Counting) -> None:
    """The asking stops at the first answer that cannot be stored, before its place is given to another."""
    with Full(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(LedgerError, match="full"):
            ask(judge, [relevance(n) for n in range(60)], ledger)
        assert 10 <= len(ledger) < 10 + judge.concurrency  # those that arrived during a commit go together
        assert len(judge.asked) <= len(ledger) + judge.concurrency


def test_a_judgement_names_its_item_and_how_it_was_asked(tmp_path: Path) -> None:
    """Item, request and the question's settings stand on the row, in the ledger too."""
    question = relevance(1)
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        ask(Counting(), [question], ledger)
        (key,) = ledger.db.execute("SELECT key FROM judgements").fetchone()
        found = ledger.find([key])[key]
    assert found.item == question.item
    assert question.settings().items() <= found.provenance.items()


class Windowed(Counting):
    """Judges in two windows."""

    def reply(self, question: AnyQuestion) -> Reply:
        windows = tuple(
            (relevance(n), Reply(payload=question.typical(), provenance=FrozenDict(window=n))) for n in (2, 3)
        )
        return Reply(payload=question.typical(), children=windows, provenance=FrozenDict(windows=2))


def test_windows_are_stored_with_what_they_were_merged_into(tmp_path: Path) -> None:
    """Their parent is the key of the whole; an answer from the ledger has them too."""

    async def run(ledger: SQLiteLedger) -> tuple[Answer, Answer]:
        async with Asker(Windowed(), ledger) as asker:
            (live,) = await asker.judge([relevance(1)])
        async with Asker(Windowed(), ledger) as asker:
            ((stored,),) = await asker.lookup([[relevance(1)]])
            assert stored is not None
        return live, stored

    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        live, stored = asyncio.run(run(ledger))
    assert (stored.judgement, stored.value) == (live.judgement, live.value)
    assert stored.children == tuple(sorted(live.children, key=lambda child: child.key))
    assert {child.parent for child in stored.children} == {live.judgement.key}
    assert {child.item for child in stored.children} == {relevance(2).item, relevance(3).item}


def test_a_panel_s_answer_has_its_members_as_children(tmp_path: Path) -> None:
    """Their parent is the panel's key, live and in a session that goes on; alone, a member's answer has no parent."""
    members = [Counting(), Second()]
    panel = PanelJudge(members)

    file = tmp_path / "judgements.jsonl"

    async def run(route: Judge) -> tuple[Answer, ...]:
        with SQLiteLedger(file, rows=earlier_judgements([file])) as earlier:
            async with Asker(route, earlier=earlier) as asker:
                return tuple(await asker.judge([relevance(1)]))

    (live,) = asyncio.run(run(panel))
    assert [(child.judge, child.parent) for child in live.children] == [
        ("counting", live.judgement.key),
        ("second", live.judgement.key),
    ]
    assert {child.item for child in live.children} == {live.judgement.item} == {relevance(1).item}
    file.write_bytes(b"".join(map(judgement_line, (live.judgement, *live.children))))
    (again,) = asyncio.run(run(panel))
    assert again == live
    assert [len(member.asked) for member in members] == [1, 1]
    (alone,) = asyncio.run(run(members[0]))
    assert (alone.judgement.parent, len(members[0].asked)) == (None, 1)


class Second(Counting):
    """Another member."""

    name = "second"
