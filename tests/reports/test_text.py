"""The table for a terminal says each reason once."""

from germane import evaluate
from germane.judges.fake import FakeJudge
from germane.judges.judge import Reply
from germane.questions import AnyQuestion
from germane.reports.text.terminal import render_plain
from germane.types import Json


def no_answer_to_bad_texts(question: AnyQuestion) -> Json | Reply:
    bad = "bad" in str(getattr(question, "passage", ""))
    return Reply(error="the model was ill") if bad else question.typical()


def test_scores_that_lack_more_or_less_for_one_reason_are_counted_together() -> None:
    """One sample lacks one verdict of three, another two: that is one reason, of two scores."""
    samples = [
        {"id": "one", "query": "q", "contexts": ["bad", "good", "fine"]},
        {"id": "two", "query": "r", "contexts": ["bad", "worse, bad", "fine"]},
    ]
    shown = str(evaluate(samples, "context_precision@3", judge=FakeJudge(no_answer_to_bad_texts)))
    assert "2 x verdicts missing: the model was ill (context_precision@3)" in shown
    assert shown.count("the model was ill") == 1


def test_the_interval_is_whole_in_80_columns_and_empty_columns_are_left_out() -> None:
    """Several systems and a long name: the name wraps, the numbers stay."""
    samples = [
        {"id": f"q{n}", "query": "q", "system": system, "contexts": [{"text": "t", "relevant": n % 3 > 0}]}
        for system in ("bm25-with-stemming", "dense")
        for n in range(12)
    ]
    report = evaluate(samples, "context_precision(labels=human,rel=1)@5 P(labels=human)@1")
    shown = render_plain(report, 80)
    for summary in report.summaries:
        assert f"{summary.interval_in_words()}  12/12" in " ".join(shown.split()).replace(" 12/12", "  12/12")
    assert max(map(len, shown.splitlines())) <= 80
    assert not {"skipped", "incomplete", "errors"} & set(shown.split())
