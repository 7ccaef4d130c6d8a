"""When two spellings are one entity, in any language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.judges import FakeJudge
from germane.measures.context import alike, plain

SAMES = [
    ("Brazil", " brazil. "),
    ("“São Paulo”", "são  paulo"),
    ("Straße", "STRASSE"),
    ("GROẞER ZOO", "großer zoo"),
    ("１９４９年", "1949年"),
    ("《红楼梦》", "红楼梦"),
    ("ｶﾀｶﾅ", "カタカナ"),
    ("«القاهرة»", "القاهرة،"),
    ("New\u00a0York", "new york"),
    ("ﬁnland", "FINLAND"),
    ("U.S.", "u.s"),
]
OTHERS = [("1822", "1823"), ("Iran", "Iraq"), ("北京", "南京"), ("€5", "5"), ("مصر", "مصري")]


@pytest.mark.parametrize(("one", "other"), SAMES)
def test_equal_once_made_plain(one, other):
    """NFKC, case folding, white space and punctuation at the edges make no difference."""
    assert plain(one) == plain(other)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_what_is_another(one, other):
    """Other letters, digits and signs do."""
    assert plain(one) != plain(other)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Marie Curie", "Curie", True),
        ("Shakespeare", "Shakspeare", True),
        ("7 September 1822", "7 September 1823", False),
        ("10,000", "100,000", False),
        ("Iran", "Iraq", False),
        ("Müller", "Mueller", False),
        ("التلفزيون المصري", "تلفزيون", False),
    ],
)
def test_fuzzy(one, other, same):
    """Similar spellings and parts of a name are one where asked for; two numbers never are."""
    assert alike(plain(one), plain(other)) is same
    assert alike(plain(other), plain(one)) is same


def test_the_measure_takes_the_parameter():
    """match=fuzzy is another measure with its own name, on the same answers."""
    judge = FakeJudge({"r": {"entities": ["Marie Curie", "1867"]}, "c": {"entities": ["Curie"]}})
    sample = {"query": "q", "reference": "r", "contexts": ["c"]}
    names = ["context_entity_recall", "context_entity_recall(match=fuzzy)"]
    report = evaluate([sample], names, judge=judge)
    assert [report[name].mean for name in names] == [0.0, 0.5]
    assert len(judge.asked) == 2


@given(st.text())
def test_plain_is_stable(text):
    """What is plain stays as it is."""
    assert plain(plain(text)) == plain(text)


@given(
    st.lists(st.sampled_from(["A", "a", "B.", "b", "C"]), max_size=6),
    st.lists(st.sampled_from("abcd"), max_size=4),
)
def test_recall_by_sets(reference, context):
    """The measure is a recall of distinct plain entities, in any order and however often repeated."""
    judge = FakeJudge({"r": {"entities": reference}, "c": {"entities": context}})
    (score,) = evaluate(
        [{"query": "q", "reference": "r", "contexts": ["c"]}], "context_entity_recall", judge=judge
    ).scores()
    wanted = {plain(entity) for entity in reference}
    if wanted:
        assert score.value == pytest.approx(len(wanted & {plain(c) for c in context}) / len(wanted))
    else:
        assert score.status == "skipped"
