"""Text for a shell with slots, whose values are passed as environment variables and never parsed.

A bare `{PROMPT}` becomes `"$GERMANE_PROMPT"`. Where a shell might not read that as one word, a slot is refused, and the
variable is to be written instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from germane.errors import Invalid

Values: TypeAlias = Mapping[str, str | Sequence[str]]
"""The value of each slot: a text, or the paths of files."""

SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_SLOT = SLOT.pattern.replace("(", "(?:")
_PIECE = re.compile(
    rf"""\\(?:{_SLOT}|.)?|'[^']*'?|"(?:\\.|[^"\\])*"?|(?<![^\s;&|()])\#[^\n]*|{_SLOT}|.""", re.DOTALL
)
"""The pieces of a shell's text: an escaped character, a quoted text, a comment, a slot, any other character."""
_HEREDOC = re.compile(r"(?<!<)<<(?!<)")
_CODE_FLAG = re.compile(r"-\w*c")
_PARSED_AGAIN = {"eval", "trap", "ssh"}
"""Commands whose arguments are a command once more, the last on another machine."""


def variables(values: Values) -> dict[str, str]:
    """Return the values of slots as variables: GERMANE_PROMPT; files are GERMANE_FILE_1 and so on."""
    return {name: text for slot, value in values.items() for name, text in _variables(slot, value).items()}


def with_variables(template: str, values: Values) -> str:
    """Return the text with each slot replaced by a quoted variable."""
    # cmd replaces %NAME% before it parses; !NAME! it replaces afterwards
    quoted = '"!{}!"' if sys.platform == "win32" else '"${}"'
    return SLOT.sub(lambda slot: " ".join(map(quoted.format, _variables(slot[1], values[slot[1]]))), template)


def argv(template: Sequence[str], values: Values) -> tuple[str, ...]:
    """Return a command that runs without a shell, with the values filled in; `{FILES}` alone becomes a word per file."""
    words: list[str] = []
    for word in template:
        whole = SLOT.fullmatch(word)
        if whole and not isinstance(listed := values[whole[1]], str):
            words += listed
        else:
            words.append(SLOT.sub(lambda slot: " ".join(_variables(slot[1], values[slot[1]]).values()), word))
    return tuple(words)


def check_slots(template: str) -> None:
    """Raise Invalid if a slot is within quotes, or if a shell might parse its value as code."""
    words = [""]  # of the command so far, without quotes
    for match in _PIECE.finditer(template):
        piece = match[0]
        if piece[0] == "#" and len(piece) > 1:
            continue
        slot = SLOT.search(piece)
        if slot and (problem := _misplaced(piece, template, match.start(), words)):
            variable = "$GERMANE_FILE_1" if slot[1] == "FILES" else f"$GERMANE_{slot[1]}"
            code = f"""write the variable in quoted text: sh -c 'my-rag "{variable}"'"""
            plain = f"write {variable} there{' in double quotes' if 'quotes' in problem else ''}"
            fix = code if "parsed as code" in problem else plain
            raise Invalid(f"has {slot[0]} {problem}", fix)
        if piece in ";&|\n":
            words = [""]
        elif piece.isspace() or piece in "()<>":
            words.append("")
        else:
            words[-1] += piece.strip("'\"")


def _misplaced(piece: str, template: str, start: int, words: Sequence[str]) -> str:
    """Return where in this text a slot's value would not be one word; "" if nowhere."""
    before = template[:start]
    if piece[0] == "\\":
        return "after a backslash"
    if _HEREDOC.search(template):
        return "in a command with a heredoc"
    if "`" in before:
        return "inside backquotes"
    # "$(f "{PROMPT}")" has quotes in quotes
    if piece[0] in "'\"" or re.search(r"""["][^"]*\$\([^")]*["]""", before):
        return "inside quotes"
    if "((" in before:
        return "in arithmetic, where it would be parsed as code"
    flags = takewhile(lambda word: word.startswith("-"), filter(None, reversed(words[:-1])))
    flag = next(filter(_CODE_FLAG.fullmatch, [words[-1], *flags]), "")
    again = flag or next((word for word in words if word in _PARSED_AGAIN), "")
    return f"after {again}, where it would be parsed as code" if again else ""


def _variables(slot: str, value: str | Sequence[str]) -> dict[str, str]:
    """Return the variables of one slot with their values."""
    if isinstance(value, str):
        return {f"GERMANE_{slot}": value}
    return {f"GERMANE_FILE_{number}": text for number, text in enumerate(value, 1)}
