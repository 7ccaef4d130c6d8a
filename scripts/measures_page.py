"""Write what the definitions say of each measure into docs/measures.md, between its two marks."""

from __future__ import annotations

from pathlib import Path

from germane.measures.explaining import markdown
from germane.measures.measure import definitions

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"
START = "<!-- from here: made of the definitions in src/germane/measures by scripts/measures_page.py -->\n\n"
END = "\n<!-- to here -->"


def page() -> str:
    """The page with its middle part made anew."""
    head, _, rest = PAGE.read_text("utf-8").partition(START)
    tail = rest.partition(END)[2]
    return f"{head}{START}{markdown(definitions())}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
