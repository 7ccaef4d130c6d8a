"""Names, dates and numbers in a text, by how they are written: for the lexical rule, which knows no meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator

from germane.judges.lexical_weights import is_common, is_function_word

__all__ = ["names"]

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|M\u00e4rz|Mai|Juni|Juli|Oktober|Dezember)"
)
_DATE = (
    rf"\d{{1,2}}\.?\s+{_MONTH}\.?(?:\s+\d{{3,4}})?|{_MONTH}\s+\d{{4}}|"
    rf"{_MONTH}\.?\s+\d{{1,2}}(?:,?\s+\d{{4}})?|"
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d+\u5e74(?:\d+\u6708)?(?:\d+\u65e5)?|\d+\u6708\d+\u65e5"
)
_NUMBER = r"\d+(?:[.,]\d+)*\s?(?:%|\u00b0[CF]?|[\u20ac$\u00a3])?"
_QUOTED = r"[\u300a\u300c\u300e]([^\u300b\u300d\u300f]{1,40})[\u300b\u300d\u300f]"
_KATAKANA = r"[\u30a1-\u30ff]{2,}(?:\u30fb[\u30a1-\u30ff]{2,})*"
_CAPITAL = r"[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f][^\W_]*(?:[-'\u2019&][^\W_]+)*"
_LINK = r"(?:of|the|de|da|do|la|le|van|von|der|und|and|al)"
_NAME = rf"{_CAPITAL}(?:(?:(?<=[^\w][A-Z])\.)?\s+(?:{_LINK}\s+){{0,2}}{_CAPITAL}|\s+\d+(?![\w.,])){{0,7}}"
_ENTITY = re.compile(
    rf"(?P<date>{_DATE})|(?P<name>{_NAME})|(?P<number>{_NUMBER})|{_QUOTED}|(?P<katakana>{_KATAKANA})"
)

_STARTS = re.compile(r"(?:[.!?:;\n\u2022*-]\s*)[\"'(\[\u201c\u2018\u00ab\s]*\Z")


def names(text: str) -> list[str]:
    """What looks like a name, a date or a number, each spelling once, in order.

    A name is a run of words with capitals, in Chinese and Japanese what stands in title marks or in Katakana. A function
    word is none; a single word that begins a sentence is one unless it is common, or stands in small letters elsewhere.
    """
    found = list(_found(text))
    inside = {name for name, first in found if not first}
    small = {word for word in re.findall(r"[^\W_]+", text) if word.islower()}
    kept = (
        name
        for name, first in found
        if not first or name in inside or not (is_common(name) or name.lower() in small)
    )
    return list(dict.fromkeys(kept))


def _found(text: str) -> Iterator[tuple[str, bool]]:
    """Each candidate, and whether it is a single word that begins a sentence."""
    at = 0
    while match := _ENTITY.search(text, at):
        at = match.end()
        name = match["name"]
        first = name.split()[0] if name else ""
        if first and is_function_word(first):
            at = match.start() + len(first)  # "On July 4": what follows is looked at for itself
            continue
        before = text[max(0, match.start() - 8) : match.start()]
        found = " ".join(next(filter(None, match.groups()), match[0]).strip(" .,").split())
        single = name is not None and " " not in found
        if found:
            yield found, single and (match.start() == 0 or _STARTS.search(before) is not None)
