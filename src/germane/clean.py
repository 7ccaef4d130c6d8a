"""Retrieved text is hostile: what is shown in a terminal or a spreadsheet is made harmless first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TextIO

__all__ = [
    "CleanStream",
    "cell",
    "clean",
    "clean_json",
    "clean_lines",
    "counted",
    "fold",
    "markdown_text",
    "mask_urls",
    "shorten",
    "some_of",
    "without_controls",
]

_COMMAND = re.compile(
    r"::(?=(?:add|remove|set|save|stop|debug|echo|error|warning|notice|group|endgroup|internal)[a-z-]*(?:\s.*?)?::)"
    r"|##(?=[a-z]*\[)",
    re.IGNORECASE,
)
"""The beginning of a command of a continuous integration server: GitHub's (both kinds), Azure's ##vso[, TeamCity's.

GitHub obeys the names that it knows alone: `test_search.py::TestSearch::test_one` is not a command.
"""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


_STRAY_NON_JOINER = re.compile(
    "(?<![\u0600-\u06ff\u0750-\u077f\u08a0-\u0fff\u1000-\u109f\u1780-\u18af\ufb50-\ufefe])\u200c"
)
"""U+200C, which shows nothing, other than in scripts that are spelt with it: behind letters of Arabic, Indic, Mongolian."""


MASK = "***"
"""Written in place of a secret."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*:/+\S+|\S+\?\S*=\S*", re.IGNORECASE)
"""With a scheme, or without one and with a query."""
_PASSWORD = re.compile(r"(:/+[^/?#@:]*):[^/?#]*(?=@)")
_PARAMETER = re.compile(r"([?&])([^=&#]*=)?([^&#]+)")
_NO_SECRET = {
    "api-version",
    "version",
    "deployment",
    "model",
    "region",
    "alt",
    "download",
    "raw",
    "ref",
    "revision",
}
"""Parameters of a URL whose values are shown."""


def _is_hidden(name: str, value: str) -> bool:
    return name.replace("_", "-").lower() not in _NO_SECRET and not value.startswith("{{")


def mask_urls(value: Any) -> Any:
    """The text, or JSON value, in which each URL shows neither a password nor the values of its query: these may be keys."""
    if isinstance(value, Mapping):
        return {name: mask_urls(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(mask_urls, value))
    return _URL.sub(_masked, value) if isinstance(value, str) else value


def _masked(url: re.Match[str]) -> str:
    def parameter(found: re.Match[str]) -> str:
        mark, name, value = found[1], found[2] or "", found[3]
        return f"{mark}{name}{MASK if _is_hidden(name[:-1], value) else value}"

    return _PARAMETER.sub(parameter, _PASSWORD.sub(rf"\1:{MASK}", url[0]))


def hidden_in(url: str) -> dict[str, str]:
    """The values that `mask_urls` hides in a URL, by the names of their parameters."""
    found = {name[:-1]: value for _, name, value in _PARAMETER.findall(url)}
    return {name: value for name, value in found.items() if _is_hidden(name, value)}


def clean(text: str) -> str:
    """The text on one line without control characters, terminal escapes, direction overrides or workflow commands."""
    if text.isascii() and text.isprintable() and ":" not in text and "#" not in text:
        return text  # as most are
    if "\u200c" in text:
        text = _STRAY_NON_JOINER.sub("", text)
    kept = (" " if char in "\n\r\t\v\f\x85\u2028\u2029" else char for char in text)
    words = "".join(
        char
        for char in kept
        if unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co"} or char in "\u200c\u200d"
    )
    return _COMMAND.sub(lambda match: " ".join(match[0]), words)


def clean_lines(text: str) -> str:
    """A message of several lines, each of them clean."""
    return "\n".join(map(clean, text.split("\n")))


_CONTROLS = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"
"""Control characters other than tab and line feed, and characters that change a text's direction."""
_CONTROL = re.compile(f"[{_CONTROLS}]")
_TERMINAL = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|\r|[{_CONTROLS}]")
_JSON_ESCAPED = re.compile(f"(?<=#)#|[{_CONTROLS}]")
_ANYWHERE = re.compile(r"##(?=[a-z]*\[)", re.IGNORECASE)
_AT_START = re.compile(r"^([^\S\n]*)::(?=.*::|.*\Z)", re.MULTILINE)
"""What may be a workflow command, whatever its name: two colons at the start of a line, and two more."""


def clean_json(text: str) -> str:
    """A JSON document without control characters, direction overrides and workflow commands (##[ counts anywhere in a line).

    They are escaped: its values are the same.
    """
    return _JSON_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def without_controls(text: str) -> str:
    """The text without control characters and direction overrides; tabs and line feeds stay."""
    return _CONTROL.sub("", text)


class CleanStream:
    """A text stream that drops control characters and escape sequences, and breaks up workflow commands.

    Colours and moves of the cursor pass where the stream shows colours. `inner` is the stream itself, for commands of our own.
    """

    def __init__(self, inner: TextIO, *, colours: bool) -> None:
        self.inner, self._colours, self._fresh = inner, colours, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, text: str) -> int:
        """Write the text, cleaned."""
        kept = _TERMINAL.sub(self._kept, text)
        kept = _ANYWHERE.sub("# #", kept)
        started, line_end, rest = ("", "", kept) if self._fresh else kept.partition("\n")
        kept = started + line_end + _AT_START.sub(r"\1: :", rest)
        last = kept.rpartition("\n")
        self._fresh = (self._fresh or bool(last[1])) and not last[2].strip()
        self.inner.write(kept)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines, cleaned."""
        for line in lines:
            self.write(line)

    def _kept(self, match: re.Match[str]) -> str:
        return match[0] if self._colours and (len(match[0]) > 1 or match[0] == "\r") else ""


def shorten(text: str, most: int, *, end: int = 0) -> str:
    """The cleaned text, cut to at most `most` characters with an ellipsis; `end` of them are the last ones."""
    if end and len(text) > 4 * most:
        text = f"{text[: 2 * most]} {text[-2 * most :]}"
    line = " ".join(clean(text if end else text[: 4 * most]).split())
    if len(line) <= most:
        return line
    return line[: most - end - 1].rstrip() + "…" + (line[-end:].lstrip() if end else "")


def counted(number: int, singular: str, plural: str = "") -> str:
    """`1 query`, `2,000 queries`: a number and its noun, in the plural by the rule where `plural` does not give it."""
    if number == 1:
        return f"1 {singular}"
    if not plural and re.search(r"[^aeiou]y$", singular):
        plural = f"{singular[:-1]}ies"
    return f"{number:,} {plural or singular + ('es' if singular.endswith(('ch', 'sh', 's', 'x')) else 's')}"


def some_of(names: Sequence[str], most: int = 10) -> str:
    """The first of these names, each cut to 60 characters, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shorten(name, 60) for name in names[:most]) + more


def cell(value: object) -> object:
    """A value for a spreadsheet: text that would be read as a formula gets a leading apostrophe."""
    if isinstance(value, str):
        text = "".join(char for char in value if char in "\n\t" or unicodedata.category(char) != "Cc")
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value


def markdown_text(text: str, most: int = 200) -> str:
    """The shortened text for Markdown: nothing in it is markup, a link, or what GitHub takes for a person, an issue or a commit."""
    words = shorten(text, most)
    for char in "\\|`*_<>[]~$&":
        words = words.replace(char, f"\\{char}")
    return _REFERENCE.sub(lambda match: f"{match[0]}<!-- -->", words)


_REFERENCE = re.compile(
    r"(?<![\w)])@(?=\w)|(?<=\))@(?=\d*[a-z])|@(?=[\w\\-]+\.[a-z])|#(?=\w)|\bgh-(?=\d)|(?:https?|ftp|mailto|xmpp):|\bwww\."
    r"|(?<![\w.])(?=[a-f]*\d)[0-9a-f]{6}(?=[0-9a-f]{1,34}\b)",
    re.IGNORECASE,
)
"""The beginning of what GitHub makes a link of. A comment behind it, which is not shown, divides the text; an entity does not."""


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """A name without case, underscores, dashes and blanks: `expectedRelevantCount` is `expected_relevant_count`."""
    return name.replace("_", "").replace("-", "").replace(" ", "").casefold()
