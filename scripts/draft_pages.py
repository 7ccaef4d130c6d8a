"""The schema of draft.json, for docs/schema and the page of the add-on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from scripts.reference_pages import schema_of

from germane.addons.draft.document import DraftDocument

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "draft.schema.json"


def section() -> str:
    """The words under the commands."""
    return "## draft.json\n\nIts schema is [draft.schema.json](../schema/draft.schema.json)."


def files() -> Iterator[tuple[Path, str]]:
    """The schema."""
    yield SCHEMA, json.dumps(schema_of(DraftDocument), ensure_ascii=False, indent=1) + "\n"
