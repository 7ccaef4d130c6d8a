"""What all entries of a targets file have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from germane.errors import Place

__all__ = ["Entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A target's name, its place, the folder that its paths are relative to, and how many queries it takes at once."""

    name: str
    place: Place
    folder: Path
    workers: int | None = None

    def path(self, given: str) -> Path:
        """A path of the entry, absolute."""
        return (self.folder / given).resolve()
