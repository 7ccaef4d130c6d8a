"""The lists of measures: complete, made of the definitions, and the documentation's page equal to them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.errors import MeasureError
from germane.judges import FakeJudge
from germane.measures import Measure, parse_measures
from germane.measures.explaining import as_json, described, heading, listing
from germane.measures.measure import definitions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "measures.md"
OURS = [known for known in definitions() if known.name != "code_judge"]


def test_the_page_of_the_documentation_is_made_of_the_definitions():
    """docs/measures.md holds what scripts/measures_page.py writes into it."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import measures_page; print(measures_page.page())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.decode()
    assert made.strip() == DOCS.read_text("utf-8").strip()


@pytest.mark.parametrize("known", OURS, ids=lambda known: known.title)
def test_every_measure_says_what_it_is(known):
    """Meaning, formula, needs, cost, what nothing-to-count gives and its source, in every list."""
    assert all([known.doc, known.formula, known.needs, known.nothing, known.reference, known.calls])
    assert "\n" not in known.doc.partition("\n\n")[0].strip() or known.family == "ranked"
    assert known.formula in described(known)
    assert known.formula in listing([known])
    json.dumps(as_json(known), allow_nan=False)
    assert all(param.meaning for param in known.params.values())


@pytest.mark.parametrize("known", OURS, ids=lambda known: known.title)
def test_every_title_and_alias_parses(known):
    """What the lists show can be typed."""
    for name in (known.title, *known.aliases, *known.presets):
        assert Measure.parse(name, lenient=True).definition is known


def test_a_measure_without_a_docstring_is_listed_by_its_name():
    """Such as one of one's own, of which nothing else is known."""
    known = replace(OURS[0], name="first_hit", doc="", formula="")
    assert listing([known]).startswith(heading(known))


BLOCKS = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_run(block, tmp_path):
    """Each measure of one's own on the page is at most ten lines of code, and computes."""
    lines = [line for line in block.splitlines() if line.strip()]
    name = re.findall(r"def (\w+)", block)[0]
    own = tmp_path / "own.py"
    own.write_text(block, "utf-8")
    (measure,) = parse_measures([f"{own}:{name}"])
    sample = {"query": "q", "contexts": [{"id": "d1", "text": "a"}], "qrels": {"d1": 1}, "reference": "r"}
    (score,) = evaluate([sample], [measure], judge=FakeJudge()).scores()
    assert (score.status, len(lines) <= 10) == ("ok", True)


def test_a_notebook_s_cell_runs_again() -> None:
    """A measure of `__main__` is defined anew; elsewhere a second one of its name is an error."""
    cell = "from germane.measures import measure\n@measure\ndef cell_again(sample):\n    return float({0})\n"
    row = {"query": "?", "contexts": [{"id": "a", "text": "a", "relevant": True}]}
    found = []
    for value in (0.25, 0.75):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(cell.format(value), names)
        found.append(evaluate([row], [names["cell_again"]])["cell_again"].mean)
    assert found == [0.25, 0.75]
    with pytest.raises(MeasureError, match="defined already"):
        exec(cell.format(1), {"__name__": "elsewhere"})


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("RR,R@5", "RR R@5"),
        ("nDCG@10, RR", "nDCG@10 RR"),
        ("nDCG(dcg=log2, ideal=all)@10,RR ,", "nDCG(dcg=log2, ideal=all)@10 RR"),
    ],
)
def test_a_comma_between_measures_is_named(text, spaced):
    """It was called a wrong cut-off or name; a comma between parameters is none of these."""
    with pytest.raises(
        MeasureError, match=re.escape(f"has a comma between measures; write spaces: {spaced}") + "$"
    ):
        parse_measures([text])
    assert len(parse_measures(["context_precision(labels=gold, rel=1)@5 RR"])) == 2
    with pytest.raises(MeasureError, match="has a comma between measures"):
        Measure.parse("RR,R@5")  # as in an eval file's list
