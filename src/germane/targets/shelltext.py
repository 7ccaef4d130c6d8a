"""Text for a shell with slots: values reach it as variables of the environment, and never as text that is parsed.

A bare `{PROMPT}` becomes `"$GERMANE_PROMPT"`. Where a shell does not read that as one word, a slot is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import takewhile

from germane.errors import Invalid

_SLOT = r"\{(?:PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}"
SLOT = re.compile(_SLOT.replace("?:", ""))
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?P<end>\\?\w+|'[^'\n]*'|\"[^\"\n]*\")[^\n]*\n")
_PIECES = (
    re.compile(rf"{_SLOT}|\\(?:{_SLOT}|.)?|'[^']*'?|\$\(\(?|.", re.DOTALL),
    re.compile(rf"{_SLOT}|\\(?:{_SLOT}|.)?|\$\(\(?|.", re.DOTALL),
)
"""The pieces of a shell's text that matter here, outside of double quotes and within them."""
_CODE_FLAG = re.compile(r"-\w*c")
_BEFORE_A_COMMAND = re.compile(r"\w+=.*|then|do|else|elif|if|while|until|!|\{|time|command|builtin|exec|sudo")
_PARSED_AGAIN = {"eval", "trap", "ssh"}
"""Commands whose arguments are a command once more, the last on another machine."""


def variables(values: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """The values of slots as variables: GERMANE_PROMPT; the files are GERMANE_FILE_1 and so on."""
    result: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            result[f"GERMANE_{name}"] = value
        else:
            result |= {f"{_single(name)}_{number}": text for number, text in enumerate(value, 1)}
    return result


def with_variables(template: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """The text with a quoted variable in place of each slot."""

    def quoted(slot: re.Match[str]) -> str:
        value = values[slot[1]]
        names = (
            [f"GERMANE_{slot[1]}"]
            if isinstance(value, str)
            else [f"{_single(slot[1])}_{n}" for n in range(1, len(value) + 1)]
        )
        return " ".join(map(_read, names))

    return SLOT.sub(quoted, template)


def argv(template: Sequence[str], values: Mapping[str, str | Sequence[str]]) -> tuple[str, ...]:
    """The words of a command that no shell reads, with the values themselves; `{FILES}` alone becomes a word per file."""
    words: list[str] = []
    for word in template:
        whole = SLOT.fullmatch(word)
        if whole and not isinstance(listed := values[whole[1]], str):
            words += listed
        else:
            words.append(SLOT.sub(lambda slot: _joined(values[slot[1]]), word))
    return tuple(words)


def check_slots(template: str) -> None:
    """Raise Invalid where a slot stands in quotes, in a heredoc or in what a shell parses once more."""
    text, at = _without_heredocs(template), 0
    around, words = list[str](), [""]  # quotes and parentheses that are open; the words of the command so far
    while at < len(text):
        inside = around[-1] if around else ""
        piece = next(_PIECES[inside == '"'].finditer(text, at))[0]
        at += len(piece)
        if piece == "#" and inside != '"' and not words[-1] and "((" not in around:  # a comment
            at = f"{text}\n".find("\n", at)
        elif (slot := SLOT.search(piece)) is not None:
            if problem := _misplaced(piece[0], around, words):
                raise Invalid(f"has {slot[0]} {problem}", _instead(problem, slot))
            words[-1] += piece
        elif piece in {"$(", "$(("} or (piece == "(" and inside != '"'):
            around += ["((", "("] if piece == "$((" else ["("]
            words = [""]
        elif piece in {'"', "`"}:
            around = around[:-1] if piece == inside else [*around, piece]
            words = [*words[:-1], words[-1] + piece] if piece != "`" or piece == inside else [""]
        elif inside == '"' or piece not in ";&|)\n \t<>":
            words[-1] += piece
        elif piece in ";&|)\n":
            around = around[:-1] if piece == ")" and inside in {"(", "(("} else around
            words = [""]
        else:
            words.append("")


def _without_heredocs(template: str) -> str:
    """The text with blanks in place of heredocs, whose quotes are none; Invalid where one holds a slot."""
    for heredoc in _HEREDOC.finditer(template):
        end = re.escape(heredoc["end"].strip("\\'\""))
        body = re.compile(rf".*?(?=^\t*{end}$|\Z)", re.DOTALL | re.MULTILINE).match(template, heredoc.end())
        if body is not None and (slot := SLOT.search(body[0])):
            raise Invalid(f"has {slot[0]} in a heredoc", f"write {_name(slot)} there, and its delimiter bare")
        if body is not None:
            blank = re.sub(r"[^\n]", " ", body[0])
            template = template[: body.start()] + blank + template[body.end() :]
    return template


def _single(name: str) -> str:
    return f"GERMANE_{name.removesuffix('S')}"


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _read(variable: str) -> str:
    """One word that is the variable's value: of cmd, which replaces `%NAME%` before it parses, the delayed form."""
    return f'"!{variable}!"' if sys.platform == "win32" else f'"${variable}"'


def _name(slot: re.Match[str]) -> str:
    return f"${_single(slot[1])}_1" if slot[1] == "FILES" else f"$GERMANE_{slot[1]}"


def _misplaced(char: str, around: Sequence[str], words: Sequence[str]) -> str:
    """The construct that a slot stands in, in a piece that begins with `char`; "" where it is a word or a part of one."""
    if char == "\\":
        return "after a backslash"
    if "`" in around:
        return "inside backquotes"
    if char == "'" or around[-1:] == ['"']:
        return "inside quotes"
    if "((" in around:
        return "in arithmetic, where it would be parsed as code"
    *before, last = (re.sub("['\"]", "", word) for word in words)
    flags = takewhile(lambda word: word.startswith("-"), filter(None, reversed(before)))
    if flag := next(filter(_CODE_FLAG.fullmatch, [last, *flags]), ""):
        return f"after {flag}, where it would be parsed as code"
    command = next((word for word in before if word and not _BEFORE_A_COMMAND.fullmatch(word)), "")
    return f"after {command}, where it would be parsed as code" if command in _PARSED_AGAIN else ""


def _instead(problem: str, slot: re.Match[str]) -> str:
    if "quotes" in problem:
        return f'write {slot[0]} without them, or "{_name(slot)}"'
    if "backslash" in problem:
        return f"write {slot[0]} bare"
    return f"""write the variable in quoted text: sh -c 'my-rag "{_name(slot)}"'"""
