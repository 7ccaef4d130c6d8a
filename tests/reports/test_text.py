"""The table of a report in a narrow terminal."""

from germane import evaluate
from germane.reports.summary import interval_in_words
from germane.reports.text.overview import render_plain


def test_the_interval_is_whole_in_80_columns_and_empty_columns_are_left_out() -> None:
    """Several systems and a long name: the name stands above the numbers, which stay whole."""
    samples = [
        {"id": f"q{n}", "query": "q", "system": system, "contexts": [{"text": "t", "relevant": n % 3 > 0}]}
        for system in ("bm25-with-stemming", "dense")
        for n in range(12)
    ]
    report = evaluate(samples, "context_precision(labels=human,rel=1)@5 P(labels=human)@1")
    shown = render_plain(report, 80)
    for summary in report.summaries:
        assert f"{interval_in_words(summary.interval)}  12/12" in " ".join(shown.split()).replace(
            " 12/12", "  12/12"
        )
    assert max(map(len, shown.splitlines())) <= 80
    assert not {"skipped", "incomplete", "errors"} & set(shown.split())


def test_notes_on_labels_name_their_systems() -> None:
    """Unless they are true of all."""
    found = {"a": ["d", "x"], "b": ["d", "x"], "c": ["d", "d2"]}
    report = evaluate(
        [
            {
                "query": "q",
                "system": system,
                "qrels": {"d": 1, "d2": 1},
                "contexts": [{"id": one} for one in ids],
            }
            for system, ids in found.items()
        ],
        "P@2",
    )
    assert "50% of the top-2 results have a gold label (P@2 of a, b)" in render_plain(report)
    alike = render_plain(evaluate([one for one in report.samples() if one.system != "c"], "P@2"))
    assert "50% of the top-2 results have a gold label (P@2)" in alike
