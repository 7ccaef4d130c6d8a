"""The ranked measures as values: names, spellings, parameters, sources of labels."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import pytest

import germane.measures as public
from germane.errors import MeasureError
from germane.measures import AP, Measure, P, context_precision, context_relevance, nDCG, parse_measures
from germane.measures.bounds import values
from germane.measures.measure import definitions
from germane.places.table import RankedLabels

RANKED = [known for known in definitions() if known.family == "ranked"]


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("ndcg_cut_10", "nDCG@10"),
        ("ndcg", "nDCG"),
        ("NDCG@5", "nDCG@5"),
        ("ndcg_10", "nDCG@10"),
        ("ndcg_burges@10", "nDCG(dcg=exp-log2)@10"),
        ("nDCG(dcg=log2,holes=zero,labels=gold,over=calls)@10", "nDCG@10"),
        ("nDCG(labels=judge)@10", "nDCG(ideal=retrieved,labels=judge)@10"),
        ("map", "AP"),
        ("MAP", "AP"),
        ("map_cut_10", "AP@10"),
        ("recip_rank", "RR"),
        ("MRR@10", "RR@10"),
        ("P_5", "P@5"),
        ("precision@5", "P@5"),
        ("P(rel=2)@5", "P(rel=2)@5"),
        ("recall_10", "R@10"),
        ("Recall@10", "R@10"),
        ("success_5", "Success@5"),
        ("hit_rate@3", "Success@3"),
        ("Rprec", "Rprec"),
        ("bpref", "bpref"),
        ("set_P", "SetP"),
        ("set_recall", "SetR"),
        ("set_F", "SetF"),
        ("RBP", "RBP"),
        ("RBP(p=.8)", "RBP"),
        ("rbp", "RBP(p=0.9)"),
        ("RBP(p=0.123456789)", "RBP(p=0.123456789)"),
        ("judged@10", "Judged@10"),
        ("ndcg_cut.10", "nDCG@10"),
        ("P.10", "P@10"),
        ("map_cut.5", "AP@5"),
        ("iprec_at_recall_0.10", "IPrec@0.1"),
        ("iprec_at_recall.0.00", "IPrec@0"),
        ("IPrec@.25", "IPrec@0.25"),
        ("IPrec@1", "IPrec@1"),
        ("num_rel_ret", "num_rel_ret"),
        ("err@20", "ERR@20"),
        ("contextual_relevance", "context_relevancy(unit=context)"),
        ("contextual_relevancy", "context_relevancy"),
        ("context_relevance", "context_relevancy(unit=context)"),
        ("context_relevance(rel=3)@5", "context_relevancy(rel=3,unit=context)@5"),
        ("context_relevancy(unit=context)", "context_relevancy(unit=context)"),
    ],
)
def test_every_spelling_prints_its_canonical_name(spelling: str, canonical: str) -> None:
    """trec_eval's and other tools' spellings mean our measures; the canonical name parses back to an equal value."""
    measure = Measure.parse(spelling)
    assert str(measure) == canonical
    assert Measure.parse(canonical) == measure
    assert hash(Measure.parse(canonical)) == hash(measure)


@pytest.mark.parametrize("name", ["R@5", "F1@5", "Rprec", "bpref", "AP", "SetR", "SetF"])
@pytest.mark.parametrize("source", ["judge", "human", "best"])
def test_recall_needs_gold(name: str, source: str) -> None:
    """What divides by all that is relevant refuses labels of what was retrieved."""
    with pytest.raises(MeasureError, match="the judge saw only what was retrieved; recall needs gold"):
        Measure.parse(name)(labels=source)


@pytest.mark.parametrize("name", ["nDCG", "RR", "P@5", "Success@5", "RBP", "SetP", "context_precision"])
@pytest.mark.parametrize("source", ["gold", "judge", "human", "best"])
def test_the_others_read_any_labels(name: str, source: str) -> None:
    """The source of labels is a parameter, and the measure knows it."""
    assert Measure.parse(name)(labels=source).labels == source


@pytest.mark.parametrize(
    "text",
    [
        "P",
        "R",
        "F1",
        "Success",
        "bpref@10",
        "AP@0",
        "AP@-1",
        "AP@x",
        "AP(rel=0)",
        "AP(rel=1.5)",
        "AP(foo=1)",
        "AP(rel=1,rel=2)",
        "rbp.95",  # p in ranx
        "RBP(p=1)",
        "RBP(p=-0.1)",
        "RBP(p=nan)",
        "nDCG(dcg=ln)@5",
        "nDCG(rel=2)",
        "AP(labels=oracle)",
        "Judged(labels=judge)",
        "context_relevancy(unit=word)",
        "no_such_measure",
        "IPrec",
        "IPrec@1.5",
        "nDCG@0.5",
        "ERR(top=0)",
        "bpref(holes=bounds)",
    ],
)
def test_what_makes_no_measure_is_refused(text: str) -> None:
    """A missing or superfluous cut-off, an unknown parameter or value: an error that says what to write."""
    with pytest.raises(MeasureError) as caught:
        Measure.parse(text)
    assert caught.value.fix


def test_a_near_miss_is_named() -> None:
    """An unknown name comes with the nearest known one."""
    with pytest.raises(MeasureError, match="did you mean context_precision"):
        Measure.parse("context_precison@3")


@pytest.mark.parametrize(
    "text",
    ["nDCG(", "nDCG)", "nDCG(rel=1", "P@5 nDCG(", "nDCG((rel=1))@5", "(nDCG)@", ")(", "nDCG()(dcg=log2)"],
)
def test_unbalanced_texts_are_refused(text: str) -> None:
    """A parenthesis without its partner is not a measure, on the command line as in Python."""
    with pytest.raises(MeasureError) as caught:
        parse_measures([text])
    assert caught.value.fix


@pytest.mark.parametrize("known", RANKED, ids=lambda known: known.title)
def test_every_definition_says_what_it_means(known) -> None:
    """Meaning, formula, source, what nothing gives: no field is empty, and every parameter has a meaning."""
    for text in (known.doc, known.formula, known.reference, known.nothing):
        assert text
        assert not text.endswith(" ")
    assert known.doc.endswith(".")
    assert known.needs == ("contexts",)
    assert known.range in {(0.0, 1.0), (0.0, math.inf)}
    assert all(param.meaning for param in known.params.values())
    assert {"labels", "over"} <= set(known.params)
    assert "union" not in known.params["over"].choices


def test_each_ranked_measure_is_a_public_value() -> None:
    """`germane.measures` has every ranked measure by its name; context_relevance is the one counted by context."""
    for known in RANKED:
        name = "context_relevance" if known.title == "context_relevancy(unit=context)" else known.name
        assert getattr(public, name) == Measure.parse(known.title, lenient=True)
        assert name in public.__all__
    assert str(context_relevance @ 5) == "context_relevancy(unit=context)@5"
    assert str(nDCG @ 10) == "nDCG@10"
    assert str(AP(rel=2)) == "AP(rel=2)"
    assert str(P(rel=2) @ 5) == "P(rel=2)@5"


def test_defaults_follow_the_kind_of_measure() -> None:
    """Measures of rankings read gold, measures of contexts the judge."""
    assert nDCG.labels == "gold"
    assert context_precision.labels == "judge"
    assert context_relevance.labels == "judge"
    assert Measure("context_relevance").definition.when == {"unit": "context"}


def test_settings_fill_in_the_defaults() -> None:
    """`settings` holds every parameter: None where the labels decide."""
    assert AP.settings == {"rel": None, "holes": "zero", "labels": "gold", "over": "calls"}
    assert Measure.parse("RBP(p=0.5)").settings["p"] == 0.5


def test_holes_condense_the_list_before_the_formula() -> None:
    """`holes=condensed` drops what nobody judged; the default takes it as not relevant."""
    table = RankedLabels.of_lists([[None, None, 1]], [[1, 0]])
    assert values(Measure.parse("RR"), table) == pytest.approx([1 / 3])
    assert values(Measure.parse("RR(holes=condensed)"), table).tolist() == [1.0]


def test_a_measure_survives_pickling() -> None:
    """Units of work are sent to other processes: a measure is its name there too."""
    for text in ("nDCG(dcg=exp-log2)@10", "IPrec@0.1", "context_recall"):
        measure = Measure.parse(text)
        again = pickle.loads(pickle.dumps(measure))
        assert (again, again.settings) == (measure, measure.settings)


def test_ranked_measures_need_no_questions() -> None:
    """A ranked measure is found by any of its spellings without the packages that know of judging."""
    code = (
        "import sys; from germane.measures import Measure, parse_measures, nDCG\n"
        "parse_measures(['nDCG@10 map P.5 recall_10 context_precision@5'])\n"
        "print([name for name in sys.modules if name.startswith(('germane.judg', 'germane.questions'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
