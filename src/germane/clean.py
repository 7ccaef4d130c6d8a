"""Makes untrusted text harmless for terminals, spreadsheets, Markdown and CI logs; masks secrets in URLs."""

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
"""Matches the beginning of a command that a CI system would execute if a log contained it.

Such commands are GitHub's `::name::` and `##[`, and Azure's `##vso[`. Only GitHub's own names match, because
text like `test_search.py::TestSearch::test_one` is not a command.
"""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
MASK = "***"
"""The text that replaces a secret."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*:/+\S+|\S+\?\S*=\S*", re.IGNORECASE)
"""Matches a URL with a scheme, or a word with URL parameters such as `host/path?key=value`."""
_PASSWORD = re.compile(r"(:/+[^/?#@:]*):[^/?#]*(?=@)")
_PARAMETER = re.compile(r"([?&])([^=&#]*=)?([^&#]+)")
_NO_SECRET = re.compile("(api-)?version|deployment|model|region|alt|download|raw|ref|revision", re.IGNORECASE)
"""Matches the names of URL parameters whose values are not masked."""


def _is_hidden(name: str, value: str) -> bool:
    return not (_NO_SECRET.fullmatch(name.replace("_", "-")) or value.startswith("{{"))


def mask_urls(value: Any) -> Any:
    """Return a string or JSON value in which passwords and likely API keys in URLs are replaced by ***."""
    if isinstance(value, Mapping):
        return {name: mask_urls(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(mask_urls, value))
    if not isinstance(value, str):
        return value

    def parameter(found: re.Match[str]) -> str:
        mark, name, secret = found[1], found[2] or "", found[3]
        return f"{mark}{name}{MASK if _is_hidden(name[:-1], secret) else secret}"

    return _URL.sub(lambda url: _PARAMETER.sub(parameter, _PASSWORD.sub(rf"\1:{MASK}", url[0])), value)


def hidden_in(url: str) -> dict[str, str]:
    """Return the parameters of a URL (name -> value) whose values would be masked by `mask_urls`."""
    found = {name[:-1]: value for _, name, value in _PARAMETER.findall(url)}
    return {name: value for name, value in found.items() if _is_hidden(name, value)}


def clean(text: str) -> str:
    """Return a string as one line without control characters, terminal escapes and CI commands."""
    if text.isascii() and text.isprintable() and ":" not in text and "#" not in text:
        return text  # the usual case
    chars = (" " if char in "\n\r\t\v\f\x85\u2028\u2029" else char for char in text)
    hidden = {"Cc", "Cf", "Cs", "Co"}
    kept = (c for c in chars if c in "\u200c\u200d" or unicodedata.category(c) not in hidden)
    return _COMMAND.sub(lambda match: " ".join(match[0]), "".join(kept))


def clean_lines(text: str) -> str:
    """Return a message of several lines with each line cleaned by `clean`."""
    return "\n".join(map(clean, text.split("\n")))


_CONTROLS = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"
"""Control characters except tab and line feed, and characters that change the text direction."""
_CONTROL = re.compile(f"[{_CONTROLS}]")
_TERMINAL = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|\r|[{_CONTROLS}]")
_JSON_ESCAPED = re.compile(f"(?<=#)#|[{_CONTROLS}]")
_ANYWHERE = re.compile(r"##(?=[a-z]*\[)", re.IGNORECASE)
_AT_START = re.compile(r"^([^\S\n]*)::(?=.*::|.*\Z)", re.MULTILINE)
"""Matches any possible CI command at the start of a line: two colons, followed by two more colons."""


def clean_json(text: str) -> str:
    """Return a JSON document with equal values, but with control characters and CI commands escaped."""
    return _JSON_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def without_controls(text: str) -> str:
    """Return a string without control characters (except tab and line feed) and Unicode bidi controls."""
    return _CONTROL.sub("", text)


class CleanStream:
    """A text stream that writes to `inner`, but without control characters, escapes and CI commands.

    With `colours`, colour codes and cursor moves are kept.
    """

    def __init__(self, inner: TextIO, *, colours: bool) -> None:
        self.inner, self._colours, self._fresh = inner, colours, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, text: str) -> int:
        """Write a string without what the class removes, and return its full length."""

        def kept_of(found: re.Match[str]) -> str:
            return found[0] if self._colours and (len(found[0]) > 1 or found[0] == "\r") else ""

        kept = _TERMINAL.sub(kept_of, text)
        kept = _ANYWHERE.sub("# #", kept)
        started, line_end, rest = ("", "", kept) if self._fresh else kept.partition("\n")
        kept = started + line_end + _AT_START.sub(r"\1: :", rest)
        last = kept.rpartition("\n")
        self._fresh = (self._fresh or bool(last[1])) and not last[2].strip()
        self.inner.write(kept)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line as `write` does."""
        for line in lines:
            self.write(line)


def shorten(text: str, most: int, *, end: int = 0) -> str:
    """Return a string cleaned and cut to at most `most` characters, with "…" where text was removed.

    The last `end` characters are kept behind the "…".
    """
    if end and len(text) > 4 * most:
        text = f"{text[: 2 * most]} {text[-2 * most :]}"
    line = " ".join(clean(text if end else text[: 4 * most]).split())
    if len(line) <= most:
        return line
    return line[: most - end - 1].rstrip() + "…" + (line[-end:].lstrip() if end else "")


def two_digits(value: float) -> str:
    """Return a number rounded to two significant digits, such as 0.16 and 200."""
    return f"{float(f'{value:.2g}'):g}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as "1 query" or "2,000 queries"; `plural` is only for odd nouns."""
    if number == 1:
        return f"1 {singular}"
    if not plural and re.search(r"[^aeiou]y$", singular):
        plural = f"{singular[:-1]}ies"
    return f"{number:,} {plural or singular + ('es' if singular.endswith(('ch', 'sh', 's', 'x')) else 's')}"


def some_of(names: Sequence[str], most: int = 10) -> str:
    """Return the first `most` names joined by commas, each cut to 60 characters, "and N more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shorten(name, 60, end=30) for name in names[:most]) + more


def cell(value: object) -> object:
    """Return a value that is safe in a spreadsheet: a formula gets an apostrophe, controls are removed."""
    if isinstance(value, str):
        text = "".join(char for char in value if char in "\n\t" or unicodedata.category(char) != "Cc")
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value


def markdown_text(text: str, most: int = 200) -> str:
    """Return a string cut to at most `most` characters and escaped for Markdown.

    It contains no markup, no links and no references that GitHub would link, such as #12.
    """
    words = shorten(text, most)
    for char in "\\|`*_<>[]~$&":
        words = words.replace(char, f"\\{char}")
    return _REFERENCE.sub(lambda match: f"{match[0]}<!-- -->", words)


_REFERENCE = re.compile(
    r"(?<![\w)])@(?=\w)|(?<=\))@(?=\d*[a-z])|@(?=[\w\\-]+\.[a-z])|#(?=\w)|\bgh-(?=\d)|(?:https?|ftp|mailto|xmpp):|\bwww\."
    r"|(?<![\w.])(?=[a-f]*\d)[0-9a-f]{6}(?=[0-9a-f]{1,34}\b)",
    re.IGNORECASE,
)
"""Matches the beginning of text that GitHub would turn into a link (@user, #12, a commit hash, a URL).

An invisible comment after the match prevents the link, whereas an HTML entity would not.
"""


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Return a name in lower case without underscores, dashes and blanks, for comparing names."""
    return name.replace("_", "").replace("-", "").replace(" ", "").casefold()


def blank(text: str) -> bool:
    """Return True if a text is empty or has only white space and invisible characters."""
    return not text or not (text[0].isalnum() or any(char.isprintable() and char != " " for char in text))
