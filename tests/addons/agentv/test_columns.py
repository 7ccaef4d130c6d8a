"""Keys of contexts in the cases of an eval file."""

import json

from tests.command import invoke


def test_cases_of_an_eval_file_choose_together(tmp_path):
    """The contexts that stand in an eval file are read by one column, as those of its data are."""
    (tmp_path / "e.yaml").write_text(
        "measures: [RR]\nevalcases:\n"
        "  - {id: a, query: q, qrels: {c2: 1}, contexts: [{doc_id: d1, chunk_id: c1}, {doc_id: d2, chunk_id: c2}]}\n"
        "  - {id: b, query: r, qrels: {x: 1}, contexts: [{doc_id: d3, chunk_id: c3}]}\n"
    )
    done = invoke("run", tmp_path / "e.yaml", "--json", "-o", tmp_path / "r")
    assert json.loads(done.out)["measures"]["RR"]["mean"] == 0.25
    assert "'doc_id' and 'chunk_id' could be the document's id; 'chunk_id' meets the gold" in done.err
