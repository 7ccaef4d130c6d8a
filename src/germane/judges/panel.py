"""Panels: several judges, or several samples of one, answer the same question, and vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from germane.encoding import digest
from germane.errors import InputError, JudgeError
from germane.judges.judge import Judge, Reply, copy_settings, with_defaults
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion, asked_as
from germane.types import FrozenDict, Json, Judgement, freeze


class Replica(Judge):
    """The n-th sample of a judge. The first is the judge itself, and so shares its stored answers.

    Args:
        judge: Whom to ask.
        number: The number of the sample, from 1; below 0 where `germane audit --again` asks. It is part of the key, and
            decides the order in lists.
    """

    def __init__(self, judge: Judge, number: int) -> None:
        copy_settings(judge, self, own=("key", "keys", "group", "answer"))
        self.judge, self.number = judge, number
        replica = {"replica": number} if number != 1 else {}
        self.identity = freeze({**judge.identity, **replica})

    def __getattr__(self, name: str) -> Any:  # forecast and price, where the judge has them
        return getattr(self.judge, name)

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Split the questions as the judge does."""
        return self.judge.group(questions)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return the judge's answers to this sample."""
        replies = await self.judge.answer(questions)
        return [
            replace(reply, provenance=FrozenDict({**reply.provenance, "replica": self.number}))
            for reply in replies
        ]


def repeated(judge: Judge, times: int) -> tuple[Judge, ...]:
    """Return `times` samples (replicas) of a judge; InputError for less than 1."""
    if times < 1:
        raise InputError(f"a judge cannot be asked {times} times", fix="repeat it once or more")
    value = with_defaults(judge)
    return tuple(Replica(value, number) if number > 1 else value for number in range(1, times + 1))


class PanelJudge(Judge):
    """Several judges that vote. Each member is asked through the ledger, under its own keys.

    Grades and yes-or-no: the highest that more than half of the votes reach (their lower median; a tie of yes and no
    is a no). Answers that are
    lists of verdicts about given subjects (which contexts support each claim) are voted item by item. Lists that the
    members draw up themselves (claims, statements, entities) cannot be voted on: the first member is asked for
    them, another one only where it fails. A member that fails leaves the vote to the others; where all fail, so
    does the panel. One that cannot be used at all is not asked any more; where none can be, the evaluation ends.
    Each member's answer is in the judgement's provenance: `votes`, `agreement` (the share of votes that agree with
    the verdict, of lists its mean over the items; not where one alone voted), and `failed` for members who did not
    answer.

    Args:
        members: At least two judges.
    """

    stored = False
    concurrency = 1

    def __init__(self, members: Sequence[Judge]) -> None:
        if len(members) < 2:
            raise InputError("a panel has at least two members", fix="name several judges, or repeat one")
        members = tuple(map(with_defaults, members))
        if any("reads" in member.identity for member in members):
            raise InputError(
                "labels and gold do not vote on a panel", fix="compare judges with them: germane audit"
            )
        self.members = members
        self.name = f"majority of {', '.join(_names(self.members))}"
        self.stand_in = " ".join(dict.fromkeys(filter(None, (member.stand_in for member in members))))
        self.identity = freeze({"panel": [member.identity for member in members], "vote": "majority"})

    def prompt_hash(self, question: AnyQuestion) -> str:
        """Return the members' common prompt hash, else a hash of all of theirs."""
        hashes = [member.prompt_hash(question) for member in self.members]
        return hashes[0] if len(set(hashes)) == 1 else digest(hashes)[:16]

    async def answer(self, _questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Raise JudgeError: the asker asks the members instead."""
        raise JudgeError("a panel is asked through germane's asker, which asks its members")

    def paid_calls(self, question: AnyQuestion) -> int:
        """Return the number of paid calls: one per asked member."""
        return sum([member.paid_calls(question) for member in self.next_members(question, ())])

    def next_members(self, question: AnyQuestion, answers: Sequence[Answer]) -> Sequence[Judge]:
        """Return the members to ask after those that have answered, in order; () if the answers can be combined."""
        rest = self.members[len(answers) :]
        if question.voted:
            return rest
        return () if any(answer.usable for answer in answers) else rest[:1]

    def combine(self, key: str, question: AnyQuestion, answers: Sequence[Answer]) -> Judgement:
        """Return the panel's judgement from one answer per member; usage and time are recorded on the members' answers."""
        named = list(zip(_names(self.members), answers, strict=False))
        votes = [(name, answer.judgement.answer) for name, answer in named if answer.usable]
        lost = {name: answer.value.why for name, answer in named if not answer.usable}
        answer: Json = None
        how: dict[str, Json] = {"failed": lost} if lost else {}
        if votes:
            how["votes"] = [{"judge": name, "answer": vote} for name, vote in votes]
            verdict = question.vote([vote for _, vote in votes])
            answer, how["vote"] = votes[0][1], "first"  # where the votes are not about the same things
            if verdict is not None:
                answer, how["vote"] = verdict.payload, "majority"
                how |= {"agreement": verdict.agreement} if len(votes) > 1 else {}
        return Judgement(
            key=key,
            item=question.item,
            kind=question.kind,
            judge=self.name,
            prompt=self.prompt_hash(question),
            answer=answer,
            error=None if votes else "; ".join(f"{name}: {why}" for name, why in lost.items()),
            at=max((answer.judgement.at for answer in answers if answer.judgement.at), default=None),
            provenance=freeze({**asked_as(question), **how}),
        )


def panel_of(judges: Sequence[Judge], repeat: int = 1) -> Judge:
    """Return one judge unchanged; several, or several samples of each, as a panel. InputError for no judge at all."""
    members = judges if repeat == 1 else [member for judge in judges for member in repeated(judge, repeat)]
    if not members:
        raise InputError("no judge in the list", fix="name one or more")
    return PanelJudge(members) if len(members) > 1 else members[0]


def whole(judgement: Judgement) -> bool:
    """Return True if every judge has answered, including each member of a panel."""
    return judgement.error is None and not judgement.provenance.get("failed")


def _names(members: Sequence[Judge]) -> list[str]:
    """Return each member's name, numbered if several share it."""
    names = [member.name for member in members]
    visible = [
        f"{name} #{names[: n + 1].count(name)}" if names.count(name) > 1 else name
        for n, name in enumerate(names)
    ]
    if len({str(dict(member.identity)) for member in members}) < len(members):
        raise InputError(
            f"a member is twice on the panel: {', '.join(names)}",
            fix="repeat a judge with --repeat N, and give each function its LLMJudge(..., name=...)",
        )
    return visible
