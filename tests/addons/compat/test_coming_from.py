"""The page for people who come from another tool says what is true."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "addons" / "coming-from.md").read_text("utf-8")
BLOCKS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = [
    (title, block)
    for title, text in BLOCKS
    for block in re.findall(r"(?<!-->\n)```python\n(.*?)```", text, re.DOTALL)
]


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_the_examples_run(title, code):
    """Every call that is shown for this side works as written, and gives what it says."""
    exec(compile(code, title, "exec"), {})


def test_every_tool_has_an_example():
    """Those with a call in Python, in its own section."""
    assert {title.split()[0] for title, _ in EXAMPLES} == {
        "AgentV",
        "The",
        "Ragas",
        "DeepEval",
        "Mastra",
        "RagaAI",
        "LiveRAG",
    }
