"""The schema of draft.json, for docs/schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from scripts.reference_pages import schema_of

from germane.addons.draft.document import DraftDocument

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "draft.schema.json"


def files() -> Iterator[tuple[Path, str]]:
    """The schema."""
    yield SCHEMA, json.dumps(schema_of(DraftDocument), ensure_ascii=False, indent=1) + "\n"
