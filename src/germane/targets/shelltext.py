"""Text for a shell with slots: values reach it as variables of the environment, and never as text that is parsed.

A bare `{PROMPT}` becomes `"$GERMANE_PROMPT"`. Where a shell does not read that as one word, a slot is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence

from germane.errors import Invalid

SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?P<end>\\?\w+|'[^'\n]*'|\"[^\"\n]*\")[^\n]*\n")
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
    """The text with a quoted variable in the place of each slot."""

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
    for heredoc in _HEREDOC.finditer(template):
        end = re.escape(heredoc["end"].strip("\\'\""))
        body = re.compile(rf".*?(?=^\t*{end}$|\Z)", re.DOTALL | re.MULTILINE).match(template, heredoc.end())
        if body is not None and (slot := SLOT.search(body[0])):
            raise Invalid(f"has {slot[0]} in a heredoc", f"write {_name(slot)} there, and its delimiter bare")
        if body is not None:  # its quotes are none
            blank = re.sub(r"[^\n]", " ", body[0])
            template = template[: body.start()] + blank + template[body.end() :]
    _Reader(template).check()


def _single(name: str) -> str:
    return f"GERMANE_{name.removesuffix('S')}"


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _read(variable: str) -> str:
    """One word that is the variable's value: of cmd, which replaces `%NAME%` before it parses, the delayed form."""
    return f'"!{variable}!"' if sys.platform == "win32" else f'"${variable}"'


def _name(slot: re.Match[str]) -> str:
    return f"${_single(slot[1])}_1" if slot[1] == "FILES" else f"$GERMANE_{slot[1]}"


class _Reader:
    """Reads a shell's text from left to right, as far as is needed to know what each slot stands in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[str] = []  # quotes and parentheses
        self.words = [""]  # of the command so far

    def check(self) -> None:
        """Raise Invalid at the first slot that is misplaced."""
        at = 0
        while at < len(self.text):
            at = self._step(at)

    def _step(self, at: int) -> int:
        """Read what starts there; where the next thing starts."""
        char, inside = self.text[at], self.open[-1] if self.open else ""
        slot = SLOT.match(self.text, at)
        if slot:
            self._check(slot)
            self.words[-1] += slot[0]
            return slot.end()
        if inside == "'":
            self._quote(char, char == "'")
        elif char == "\\":
            if escaped := SLOT.match(self.text, at + 1):
                raise Invalid(f"has {escaped[0]} after a backslash", f"write {escaped[0]} bare")
            self.words[-1] += self.text[at : at + 2]
            return at + 2
        elif self.text.startswith(("$((", "$("), at):
            self.open.append("((" if self.text.startswith("$((", at) else "(")
            self.words = [""]
            return at + 1 + len(self.open[-1])
        elif char in "'\"`" and not (char == "'" and inside == '"'):
            self._quote(char, char == inside)
        elif inside == '"':
            self.words[-1] += char
        elif char == "#" and not self.words[-1]:
            return self.text.find("\n", at) if "\n" in self.text[at:] else len(self.text)
        else:
            return self._outside(at)
        return at + 1

    def _quote(self, char: str, closes: bool) -> None:
        """A quote opens or closes; what it holds belongs to the word."""
        if closes:
            self.open.pop()
        elif self.open[-1:] == ["'"]:
            self.words[-1] += char
        else:
            self.open.append(char)
            if char == "`":
                self.words = [""]

    def _outside(self, at: int) -> int:
        """A character outside of quotes: a part of a word, or what ends a word or a command."""
        char = self.text[at]
        if char == "(":
            self.open.append("(")
        elif char == ")" and self.open[-1:] in (["("], ["(("]):
            closed = self.open.pop()
            at += len(closed) - 1
        if char in ";&|()\n":
            self.words = [""]
        elif char in " \t<>":
            self.words.append("")
        else:
            self.words[-1] += char
        return at + 1

    def _check(self, slot: re.Match[str]) -> None:
        location = self._misplaced()
        if location in {"inside quotes", "inside backquotes"}:
            raise Invalid(f"has {slot[0]} {location}", f'write {slot[0]} without them, or "{_name(slot)}"')
        if location:
            fix = f"""write the variable in quoted text: sh -c 'my-rag "{_name(slot)}"'"""
            raise Invalid(f"has {slot[0]} {location}, where it would be parsed as code", fix)

    def _misplaced(self) -> str:
        """The construct that a slot stands in; "" where it is a word or a part of one."""
        if "`" in self.open:
            return "inside backquotes"
        if self.open and self.open[-1] in {"'", '"'}:
            return "inside quotes"
        if "((" in self.open:
            return "in arithmetic"
        if _CODE_FLAG.fullmatch(self.words[-1]):
            return f"after {self.words[-1]}"
        before = [word for word in self.words[:-1] if word]
        for word in reversed(before):
            if _CODE_FLAG.fullmatch(word):
                return f"after {word}"
            if not word.startswith("-"):
                break
        command = next((word for word in before if not _BEFORE_A_COMMAND.fullmatch(word)), "")
        return f"after {command}" if command in _PARSED_AGAIN else ""
