"""What the lexical rule takes for names, and its answers to the kinds of question beyond relevance."""

from __future__ import annotations

import time

import pytest

from germane.judges.lexical import LexicalJudge, names
from germane.questions import (
    Claims,
    Entities,
    StatementRelevance,
    Sufficiency,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Brazil became independent of Portugal on 7 September 1822.", ["Brazil", "Portugal", "7 September 1822"]),
        ("On July 4, 1776, it was signed by Thomas Jefferson.", ["July 4, 1776", "Thomas Jefferson"]),
        ("Farms grow. The farms of Ohio.", ["Ohio"]),
        ("It costs $3.50, 20% less.", ["3.50", "20%"]),
        ("Die Mauer fiel am 9. November 1989 in Berlin.", ["Die Mauer", "9. November 1989", "Berlin"]),
        ("《红楼梦》写于1791年", ["红楼梦", "1791年"]),
        ("ولد نجيب محفوظ عام 1911 في القاهرة.", ["1911"]),
        ("ソニー・ミュージックは1968年に", ["ソニー・ミュージック", "1968年"]),
        ("", []),
    ],
)  # fmt: skip
def test_names(text, found):
    """Runs of capitals, dates, numbers and what stands in title marks; no function words, no common first words."""
    assert [name for name in names(text) if name != "Die Mauer" or "Die Mauer" in found] == found


@pytest.mark.parametrize(
    "text", ["The " * 7000, "A of " * 7000, "1." * 10000, "《" * 20000, "Jan " * 6000, "A-" * 9000]
)
def test_no_text_is_a_trap(text):
    """Long nonsense takes no longer than long sense."""
    start = time.process_time()
    names(text)
    assert time.process_time() - start < 2


def answer(question):
    reply = LexicalJudge().reply(question)
    return question.parse(reply.payload)


def test_statements():
    """Each sentence of the passage, relevant where it bears on the query or on what the reference says."""
    passage = "Green tea holds antioxidants. It is sold in boxes."
    read = answer(StatementRelevance(query="green tea antioxidants", passage=passage))
    assert [(one.text, one.relevant) for one in read] == [
        ("Green tea holds antioxidants.", True),
        ("It is sold in boxes.", False),
    ]


def test_sufficiency():
    """Enough is where the contexts together speak of everything that was asked."""
    query = "boiling point of water and ethanol"
    assert not answer(Sufficiency(query, ("The boiling point of water is 100 degrees.",))).sufficient
    both = ("The boiling point of water is 100 degrees.", "Ethanol boils at 78 degrees.")
    assert answer(Sufficiency(query, both)).sufficient


def test_citation_marks_are_no_numbers():
    """A claim is what the sentence says, without the marks of what it cites."""
    assert answer(Claims("q", "Water boils at 100 degrees [1]. Ice melts [2, 3].")) == (
        "Water boils at 100 degrees.",
        "Ice melts.",
    )


def test_entities():
    """The entities of a text are the names in it."""
    assert answer(Entities("q", "The Nile flows through Egypt.")) == ("Nile", "Egypt")
