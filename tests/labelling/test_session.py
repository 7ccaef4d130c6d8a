"""One person's labelling: every answer is stored at once, can be taken back, and is not asked again."""

import pytest
from msgspec.structs import replace

from germane.errors import InputError
from germane.labelling.queue import LabellingSession, LabelQueue
from germane.tables.labels import Label, LabelBook
from tests.labelling.test_queue import tasks


def session(
    stored: list[Label], who: str = "ann", queue: LabelQueue | None = None, scale: str = "graded"
) -> LabellingSession:
    return LabellingSession(
        queue or LabelQueue(tasks=tasks([3, 3])),
        who,
        stored.append,
        list(stored),
        scale=scale,
        guideline="abc",
    )


def item(one: LabellingSession) -> str:
    assert one.next is not None
    return one.next.item


def test_an_answer_is_stored_with_all_that_is_known_of_it() -> None:
    """Before the next thing is shown; blind, with queue, design and guideline."""
    stored: list[Label] = []
    one = session(stored)
    first = item(one)
    one.answer(2)
    assert [(label.item, label.answer, label.who) for label in stored] == [(first, 2, "ann")]
    assert (stored[0].blind, stored[0].queue, stored[0].guideline) == (True, "random", "abc")
    assert stored[0].design is not None
    assert stored[0].design["design"] == "passages"
    assert item(one) != first
    assert (one.done, one.total) == (1, 6)


def test_a_killed_session_goes_on_where_it_was() -> None:
    """The stored labels are all its state."""
    stored: list[Label] = []
    one = session(stored)
    for grade in (0, 1, 2):
        one.answer(grade)
    again = session(stored)
    assert (item(again), again.done) == (item(one), 3)
    assert again.undo()
    assert item(again) == stored[2].item


def test_an_answer_can_be_taken_back_and_given_anew() -> None:
    """Nothing is overwritten: the last row of a person counts."""
    stored: list[Label] = []
    one = session(stored)
    one.answer(3)
    first = stored[0].item
    assert one.undo()
    assert item(one) == first
    assert first not in LabelBook(stored)
    one.answer(0)
    found = LabelBook(stored).get(first)
    assert found is not None
    assert found.answer == 0
    assert len(stored) == 3
    assert one.undo()
    assert not one.undo()
    assert item(session(stored)) == first


def test_what_is_unsure_does_not_come_again() -> None:
    """Unsure is an answer that counts as no label."""
    stored: list[Label] = []
    one = session(stored)
    unsure = item(one)
    one.answer(None)
    assert unsure not in LabelBook(stored)
    assert (one.done, stored[0].answer, stored[0].reason) == (1, None, "unsure")
    while one.next is not None:
        assert item(one) != unsure
        one.answer(1)
    with pytest.raises(InputError, match="every task of this queue is labelled"):
        one.answer(0)


def test_people_do_not_see_each_others_labels() -> None:
    """Two people label the same draw; the lower median of what they say counts."""
    stored: list[Label] = []
    ann, ben = session(stored), session(stored, "ben")
    assert item(ann) == item(ben)
    ann.answer(3)
    ben.answer(1)
    found = LabelBook(stored).get(stored[0].item)
    assert found is not None
    assert found.answer == 1


def test_labels_of_another_queue_are_asked_again() -> None:
    """What was chosen by doubt is not a part of a random sample."""
    stored: list[Label] = []
    known = tasks([3, 3])
    targeted = session(stored, queue=LabelQueue(tasks=known, queue="targeted"))
    targeted.answer(2)
    assert stored[0].design is None
    drawn = session(stored, queue=LabelQueue(tasks=known))
    assert drawn.done == 0
    stored[0] = replace(stored[0], queue="import")
    assert session(stored, queue=LabelQueue(tasks=known)).done == 0


@pytest.mark.parametrize(("scale", "value"), [("graded", 4), ("graded", True), ("binary", 1)])
def test_answers_off_the_scale_are_refused(scale: str, value: int) -> None:
    """And nothing is stored."""
    stored: list[Label] = []
    with pytest.raises(InputError, match="is not on the"):
        session(stored, scale=scale).answer(value)
    assert stored == []
