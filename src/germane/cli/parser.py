"""Parse a command's arguments and print its `--help`, both by the table of flags."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from inspect import cleandoc
from math import inf, isfinite
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from germane.addons import absent
from germane.clean import mask_urls
from germane.cli.values import say
from germane.errors import InputError
from germane.flags import GROUPS, OUTPUT, Flag, flags_of


def width() -> int:
    """Return the width of help texts in columns."""
    return min(shutil.get_terminal_size((80, 24)).columns, 100)


def paragraphs(text: str) -> str:
    """Return the paragraphs of a docstring, filled to the width of the terminal."""
    joined = (" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))
    return "\n\n".join(fill(paragraph, width() - 2) for paragraph in joined)


def no_such(what: str, word: str, names: Iterable[str], command: str) -> InputError:
    """Return the error for an unknown command or flag: it names the nearest known one, or where they are listed."""
    from germane.samples.files import nearest

    near = nearest(word, names, 0.6)
    fix = f"did you mean {near}?" if near else f"see {command} --help"
    return InputError(f"unknown {what} {word}", fix=fix)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help with each flag's value once, after its last spelling."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width() - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        value = action.metavar if action.nargs != 0 else None
        return " ".join(filter(None, (", ".join(action.option_strings), str(value or ""))))


class _Once(argparse.Action):
    """Keeps the last of repeated values and warns, since scripts may append theirs."""

    previous: object = None

    def __call__(
        self, _: argparse.ArgumentParser, namespace: object, value: Any, flag: str | None = None
    ) -> None:
        if self.previous not in (None, value):
            say(f"warning: {flag} is given twice: {value} is used, {self.previous} is ignored")
        self.previous = value
        setattr(namespace, self.dest, value)


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises InputError."""

    def print_help(self, file: object = None) -> None:
        """Print help on stdout; a closed pipe is an error, not exit code 0."""
        del file
        print(self.format_help(), end="")

    def error(self, message: str) -> NoReturn:
        """Raise an InputError with the problem."""
        raise InputError(message.removeprefix("argument "), fix=f"see {self.prog} --help")


def parse(verb: str, about: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a verb's parameters, or print its help with the description `about` and raise SystemExit."""
    flags = flags_of(verb, installed=not {"-h", "--help"}.isdisjoint(words))
    parser = _parser(verb, about, flags)
    end = words.index("--") if "--" in words else len(words)
    namespace, rest = parser.parse_known_intermixed_args(words[:end])
    for word in rest:
        name = word.partition("=")[0]
        if not word.startswith("-") or word == "-":
            parser.error(f"unexpected argument {word!r}")
        if len(flags_of(verb, installed=True)) > len(flags):  # from here on they count
            return parse(verb, about, words)
        if owner := absent("flags", name):
            parser.error(f"{name} is a flag of the add-on {owner}, which is not installed")
        raise no_such("flag", name, [each for flag in flags for each in flag.spellings], parser.prog)
    values = vars(namespace)
    _add_arguments(parser, flags, values, list(words[end + 1 :]))
    for flag in flags:
        given = values[flag.parameter] not in (None, [])
        if not given and (flag.required or (flag.argument and not flag.spelling.startswith("["))):
            parser.error(f"{flag.long.removesuffix('...')} is missing")
        if given and flag.read is not None:
            values[flag.parameter] = flag.read(values[flag.parameter], flag.long)
    return values


def _add_arguments(parser: _Parser, flags: Sequence[Flag], values: dict[str, Any], words: list[str]) -> None:
    """Add the words after `--` to `values` as arguments, even words that begin with a dash."""
    for flag in (flag for flag in flags if flag.argument):
        if flag.several:
            values[flag.parameter] = [*(values[flag.parameter] or ()), *map(flag.kind, words)]
            words = []
        elif words and values[flag.parameter] is None:
            values[flag.parameter] = flag.kind(words.pop(0))
    for word in words:
        parser.error(f"unexpected argument {word!r}")


def _parser(verb: str, about: str, flags: Sequence[Flag]) -> _Parser:
    """Return the parser of a verb with these flags."""
    parser = _Parser(
        f"germane {verb}",
        usage=" ".join([f"germane {verb}", *(flag.spelling for flag in flags if flag.argument), "[OPTIONS]"]),
        description=paragraphs(about),
        formatter_class=_HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    for flag in flags:
        how: dict[str, Any] = {"help": flag.help_for(verb).replace("%", "%%")}
        if not flag.argument:
            how["dest"] = flag.parameter
        if flag.kind is bool:
            how |= {"action": "store_true"}
        else:
            default = None if flag.unset or verb == "run" else flag.default
            how |= {"metavar": flag.metavar, "type": partial(_value_of, flag), "default": default}
        if flag.argument:  # unknown flags are reported before missing arguments
            how |= {"nargs": "*" if "..." in flag.spelling else "?"}
        elif flag.many:
            how |= {"action": "append", "default": []}
        elif flag.kind is not bool:
            how["action"] = _Once
        groups[flag.group].add_argument(*(flag.spellings or [flag.parameter]), **how)
    groups[OUTPUT].add_argument(
        "-h", "--help", action="help", default=argparse.SUPPRESS, help="Show this help."
    )
    return parser


def _value_of(flag: Flag, text: str) -> Any:
    """Return the value of a flag given as this text; the error for an invalid one says what to write."""
    try:
        value = flag.kind(text)
    except ValueError:
        value = None
    if flag.kind is Path and "://" in text:
        value = _at_url(flag, text)
    if flag.choices and value not in flag.choices:
        value = None
    if flag.kind in {int, float} and value is not None:
        least = -inf if flag.least is None else flag.least
        most = inf if flag.most is None else flag.most
        value = value if isfinite(value) and least <= value <= most else None
    if value is None:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected {_expected(flag)}")
    return value


def _at_url(flag: Flag, url: str) -> Path:
    """Return a local copy of the file at a URL, or the URL if the verb opens it; InputError for outputs."""
    if flag.at_url == "kept":
        return Path(url)
    if flag.at_url == "refused":
        problem = f"{flag.long.strip('.')} is written to, so it must be a local path, not {mask_urls(url)}"
        raise InputError(problem, fix="name a local path")
    from germane.samples.urls import local  # not at the top: most commands name none

    return local(url)


def _expected(flag: Flag) -> str:
    """Describe the values that a flag takes: its choices, or its type with the bounds."""
    if flag.choices:
        return " or ".join(flag.choices)
    bounds = "" if flag.least is None else f" >= {flag.least:g}"
    if flag.most is not None:
        bounds = f" from {flag.least or 0:g} to {flag.most:g}"
    return {int: "an integer", float: "a number"}.get(flag.kind, "text") + bounds
