"""Recognises paths that are URLs (s3, gs, az, file, memory, ...), which an add-on reads and writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from germane import addons
from germane.clean import mask_urls
from germane.samples.files import copied

__all__ = ["local", "url_of", "with_urls"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)
"""A URL with one or more slashes, since Path reduces two to one; the scheme has two letters, unlike a Windows drive."""


def url_of(path: str | Path) -> str:
    """Return the URL that a path stands for, or "" if the path is a local file."""
    match = _URL.fullmatch(str(path))
    if match is None:
        return ""
    slash = "/" if match[1].lower() in {"file", "local", "memory"} else ""
    return f"{match[1].lower()}://{slash}{match[2].rstrip('/')}"


def with_urls(work: str) -> Any:
    """Return the function `work` of the add-on for URLs. Raises InputError if no such add-on is installed."""
    return addons.required("urls", work, "a path that is a URL", "name a file or folder of this machine")


def local(named: str | Path) -> Path:
    """Return a path as it is, or the path of a local copy if it is a URL; messages name the copy by its URL."""
    path = str(named).removeprefix("file://")
    return copied(with_urls("fetched")(url), mask_urls(url)) if (url := url_of(path)) else Path(path)
