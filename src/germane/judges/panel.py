"""Panels: several judges, or several samples of one judge, answer the same question and vote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from germane.encoding import digest
from germane.errors import InputError, JudgeError, option
from germane.judges.judge import Judge, LabelsJudge, Reply, copy_settings, judgement_of, with_defaults
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.types import Json, Judgement, freeze


class Replica(Judge):
    """A judge that asks another judge again, to sample its answers several times.

    `number` counts the samples from 1. From the second sample on, it is part of the ledger keys, so that the
    answers of earlier samples are not reused.
    """

    def __init__(self, judge: Judge, number: int) -> None:  # from 1; negative for `germane audit --again`
        copy_settings(judge, self, own=("key", "keys"))
        self.judge, self.number = judge, number
        replica = {"replica": number} if number != 1 else {}
        self.identity = freeze({**judge.identity, **replica})

    def __getattr__(self, name: str) -> Any:  # forecast and price, if the judge defines them
        return getattr(self.judge, name)


_MOST_TIMES = 100
"""How often a judge may be asked the same question; each repetition is paid, and a majority needs few."""


def repeated(judge: Judge, times: int) -> tuple[Judge, ...]:
    """Return `times` judges that each ask the given judge, so that it answers each question `times` times.

    Raises InputError if `times` is less than 1 or more than 100.
    """
    if not 1 <= times <= _MOST_TIMES:
        fix = f"write a whole number from 1 to {_MOST_TIMES}, as in 3"
        raise InputError(f"a judge cannot be asked {times} times", fix=fix)
    value = with_defaults(judge)
    return tuple(Replica(value, number) if number > 1 else value for number in range(1, times + 1))


class PanelJudge(Judge):
    """A panel of judges that vote. Each member's answer is stored in the ledger under the member's own key.

    The verdict on a grade, or on yes or no, is the highest value that more than half of the votes reach. That
    is the lower median; a tie of yes and no is a no. If the answer is a list of verdicts on given subjects
    (such as which contexts support each claim), the members vote on each subject. If each member draws up its
    own list (claims, statements, entities), no vote is possible. Then only the first member is asked, and the
    next member only if the first fails.

    If a member fails, the others vote. If all members fail, the panel's judgement is an error. If a member
    cannot be used at all (JudgeError), the evaluation ends. The judgement's provenance contains each member's
    answer (`votes`), the proportion of votes that agree with the verdict (`agreement`) and the members without
    an answer (`failed`). For lists, `agreement` is the mean over the subjects; it is absent if only one member
    voted.
    """

    stored = False
    concurrency = 1

    def __init__(self, members: Sequence[Judge]) -> None:
        if len(members) < 2:
            fix = "name several judges, or write repeated(judge, 3) to ask one judge three times"
            raise InputError(f"a panel needs at least two judges, but {len(members)} was given", fix=fix)
        members = tuple(map(with_defaults, members))
        if any(isinstance(member, LabelsJudge) for member in members):
            fix = "leave them out; `germane audit` compares a judge with labels"
            raise InputError("the judges labels and gold cannot be members of a panel", fix=fix)
        self.members = members
        self._names = _names(members)
        self.name = f"majority of {', '.join(self._names)}"
        self.stand_in = " ".join(dict.fromkeys(filter(None, (member.stand_in for member in members))))
        self.identity = freeze({"panel": [member.identity for member in members], "vote": "majority"})

    def prompt_hash(self, question: AnyQuestion) -> str:
        """Return the prompt hash of the members if all use the same prompt, else a digest of their hashes."""
        hashes = [member.prompt_hash(question) for member in self.members]
        return hashes[0] if len(set(hashes)) == 1 else digest(hashes)[:16]

    async def answer(self, _questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Raise JudgeError, because the Asker asks the members and never the panel itself."""
        raise JudgeError("PanelJudge.answer cannot be called; pass the panel to germane.evaluate as judge")

    def paid_calls(self, question: AnyQuestion) -> int:
        """Return the number of paid calls for one question, summed over the members that are asked first."""
        return sum([member.paid_calls(question) for member in self.next_members(question, ())])

    def next_members(self, question: AnyQuestion, answers: Sequence[Answer]) -> Sequence[Judge]:
        """Return the members to ask next, given the members' answers so far; () if the panel can decide."""
        rest = self.members[len(answers) :]
        if question.voted:
            return rest
        return () if any(answer.usable for answer in answers) else rest[:1]

    def combine(self, key: str, question: AnyQuestion, answers: Sequence[Answer]) -> Judgement:
        """Return the panel's judgement under `key`; the usage is in the members' own judgements."""
        named = list(zip(self._names, answers, strict=False))
        votes = [(name, answer.judgement.answer) for name, answer in named if answer.usable]
        lost = {name: answer.value.why for name, answer in named if not answer.usable}
        answer: Json = None
        how: dict[str, Json] = {"failed": lost} if lost else {}
        if votes:
            how["votes"] = [{"judge": name, "answer": vote} for name, vote in votes]
            verdict = question.vote([vote for _, vote in votes])
            answer, how["vote"] = votes[0][1], "first"  # unless a majority vote is possible
            if verdict is not None:
                answer, how["vote"] = verdict.payload, "majority"
                how |= {"agreement": verdict.agreement} if len(votes) > 1 else {}
        error = None if votes else "; ".join(f"{name}: {why}" for name, why in lost.items())
        reply = Reply(payload=answer, error=error, provenance=freeze(how))
        at = max((answer.judgement.at for answer in answers if answer.judgement.at), default=None)
        return replace(judgement_of(key, question, self, reply), at=at)


def panel_of(judges: Sequence[Judge], repeat: int = 1) -> Judge:
    """Return a panel in which each judge answers `repeat` times; a single judge is returned unchanged."""
    members = judges if repeat == 1 else [member for judge in judges for member in repeated(judge, repeat)]
    if not members:
        raise InputError("the list of judges is empty", fix='name at least one, as in "openai:gpt-4o-mini"')
    return PanelJudge(members) if len(members) > 1 else members[0]


def _names(members: Sequence[Judge]) -> list[str]:
    """Return the names of the members; if two have the name `a`, theirs are `a #1` and `a #2`."""
    names = [member.name for member in members]
    if len({str(dict(member.identity)) for member in members}) < len(members):
        fix = f"ask one judge several times with {option('--repeat N', 'repeated(judge, N)')}; "
        fix += "name functions apart: LLMJudge(..., name='a')"
        problem = f"the judges of a panel must differ, but these are the same: {', '.join(names)}"
        raise InputError(problem, fix=fix)
    return [
        f"{name} #{names[: n + 1].count(name)}" if names.count(name) > 1 else name
        for n, name in enumerate(names)
    ]
