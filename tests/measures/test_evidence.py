"""Evidence: how much of the gold text came back, however the documents were cut."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.measures.gold import cover, tokens
from germane.types import Context, Evidence

DOC = "The mill stands by the river. It was built in 1820 by two brothers. It ground flour until 1950 and is a museum now."
QUOTE = "It was built in 1820 by two brothers."


def value(measure, evidence, contexts, status="ok"):
    (score,) = evaluate([{"query": "q", "contexts": contexts, "evidence": evidence}], measure).scores()
    assert score.status == status, score.why
    return score.value if status == "ok" else score.why


@pytest.mark.parametrize(
    ("contexts", "recall", "precision"),
    [
        ([DOC], 1.0, 8 / 24),
        ([QUOTE], 1.0, 1.0),
        (["it WAS  built in 1820, by two brothers"], 1.0, 1.0),
        (
            ["The mill stands by the river. It was built in", "1820 by two brothers. It ground flour"],
            1.0,
            8 / 17,
        ),
        (["The mill stands by the river. It was built in"], 4 / 8, 4 / 10),
        (["was built in 1820"], 4 / 8, 1.0),
        (["Other brothers built a mill in 1820 by it."], 0.0, 0.0),
        ([QUOTE, DOC], 1.0, 8 / 32),
        ([QUOTE, QUOTE], 1.0, 1.0),
        ([], 0.0, 0.0),
    ],
)
def test_by_quote(contexts, recall, precision):
    """Whole, in parts, cut in two, twice, in other words: by the words of the quote."""
    assert value("evidence_recall", [{"quote": QUOTE}], contexts) == pytest.approx(recall)
    assert value("evidence_precision", [{"quote": QUOTE}], contexts) == pytest.approx(precision)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("l'été à la mer", unicodedata.normalize("NFD", "C'est l'été à la mer.")),
        (unicodedata.normalize("NFD", "한국어 문서"), "이것은 한국어 문서"),
        ("ガイドブック", "これはｶﾞｲﾄﾞﾌﾞｯｸです"),
        ("information retrieval", "The infor\u00admation re\u00adtrieval task"),
        ("istanbul", "\u0130stanbul"),
        ("\u0390", "\u1fd3"),
        ("น้ำ", unicodedata.normalize("NFKD", "น้ำ")),
    ],
)
def test_words_are_the_same_however_they_are_written(quote, text):
    """Composed or not, half-width, with soft hyphens or a dotted I; offsets are those of the text as it stands."""
    assert value("evidence_recall", [{"quote": quote}], [text]) == 1.0
    for token in tokens(text):
        assert [part.word for part in tokens(text[token.start : token.end])] == [token.word]


def test_iou():
    """Held / (retrieved + not held)."""
    assert value("IoU", [{"quote": QUOTE}], [DOC]) == pytest.approx(8 / 24)
    assert value(
        "IoU", [{"quote": QUOTE}], ["The mill stands by the river. It was built in"]
    ) == pytest.approx(4 / 14)


def chunk(start, end, doc="d1"):
    return {"id": doc, "text": DOC[start:end], "start": start, "end": end}


def test_by_offsets():
    """Characters of the document, where the evidence has offsets and the contexts too."""
    evidence = [{"doc": "d1", "start": 10, "end": 30}]
    assert value("evidence_recall", evidence, [chunk(0, 20)]) == 0.5
    assert value("evidence_recall", evidence, [chunk(0, 20), chunk(15, 40)]) == 1.0
    assert value("evidence_recall", evidence, [chunk(0, 20, doc="d2")]) == 0.0


def test_offsets_tell_repeated_words_apart():
    """With offsets on both sides, the same words elsewhere in the document are not the evidence."""
    text = "yes yes yes. no no no. yes yes yes."
    evidence = [{"quote": "yes yes yes", "doc": "d1", "start": 23, "end": 34}]
    first = {"id": "d1", "text": text[:12], "start": 0}
    last = {"id": "d1", "text": text[23:], "start": 23}
    assert value("evidence_recall", evidence, [first]) == 0.0
    assert value("evidence_recall", evidence, [last]) == 1.0


def test_what_cannot_be_told():
    """Ambiguous gold is an error; contexts without ids or offsets cannot be held against offsets."""
    assert "twice" in value("evidence_recall", [{"quote": "the mill"}], ["The mill is the mill."], "error")
    offsets = [{"doc": "d1", "start": 0, "end": 5}]
    assert "document ids" in value("evidence_recall", offsets, ["The mill"], "skipped")
    assert "no start" in value("evidence_recall", offsets, [{"id": "d1", "text": "The mill"}], "skipped")
    assert value("evidence_recall", [], ["x"], "skipped") == "the sample has no evidence"


@pytest.mark.parametrize(
    ("quote", "context", "recall"),
    [
        ("水在一百度沸腾", "在海平面。水在一百度沸腾。", 1.0),
        ("水在一百度沸腾", "在海平面。水在一百", 4 / 7),
        ("يغلي الماء عند مئة درجة", "في العادة يغلي الماء عند مئة درجة مئوية", 1.0),
        ("Die Straße ist sehr lang", "DIE STRASSE IST SEHR LANG.", 1.0),
    ],
)
def test_languages(quote, context, recall):
    """Words; characters where a script does not space its words."""
    assert value("evidence_recall", [{"quote": quote}], [context]) == pytest.approx(recall)


WORDS = [f"w{n}" for n in range(40)]
cuts = st.lists(st.integers(1, 39), max_size=6, unique=True).map(sorted)


@given(cuts, st.integers(0, 30), st.integers(3, 10))
def test_cutting_a_document_anew_changes_no_recall(where, start, length):
    """All chunks of a document hold all of its evidence, wherever it was cut (edges below three words apart)."""
    edges = [0, *where, 40]
    chunks = [WORDS[a:b] for a, b in pairwise(edges)]
    quote = WORDS[start : start + length]
    inside = [len(set(c) & set(quote)) for c in chunks]
    lost = sum(n for n in inside if 0 < n < min(3, len(quote)))
    found = cover([Evidence(quote=" ".join(quote))], [Context(text=" ".join(c)) for c in chunks])
    assert found.shares[0] == pytest.approx((len(quote) - lost) / len(quote))


@given(st.lists(st.sampled_from(["a b c d", "c d e f", "a b c d e f g h", "x y", ""]), max_size=5),
       st.lists(st.sampled_from(["a b c", "d e f", "b c d e f", "c d e"]), min_size=1, max_size=3))  # fmt: skip
def test_everything_stays_in_its_range(contexts, quotes):
    """Precision, recall and IoU lie in 0..1, whatever overlaps whatever; IoU is the smallest."""
    evidence = [{"quote": quote} for quote in quotes]
    r, p, i = (value(m, evidence, contexts) for m in ("evidence_recall", "evidence_precision", "IoU"))
    assert 0 <= i <= 1
    assert 0 <= p <= 1
    assert 0 <= r <= 1
    assert i <= p + 1e-12


def test_tokens_keep_their_offsets():
    """A token's offsets are those of the text as it is."""
    wide = "\uff22"  # a full-width B, which compares as b
    text = f"Ä {wide}2"
    assert [(text[t.start : t.end], t.word) for t in tokens(text)] == [("Ä", "ä"), (f"{wide}2", "b2")]
