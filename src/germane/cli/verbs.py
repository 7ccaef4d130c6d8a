"""The verbs of the command line: their functions, the parser of their flags, and their help.

The parameters of a verb's function are its flags, by the table of flags. It calls the library, prints, and returns the exit
code; None is 0. Its docstring is the verb's help.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import cleandoc
from keyword import iskeyword
from pathlib import Path
from textwrap import wrap
from typing import Any, NoReturn

from germane import addons
from germane.clean import mask_urls
from germane.cli.output import say
from germane.errors import InputError
from germane.flags import FLAGS, GROUPS, OUTPUT, Flag, flags_of
from germane.version import __version__

_MODULES = (
    ("init", ("init", "demo")),
    ("run", ("run",)),
    ("rank", ("rank",)),
    ("report", ("score",)),
    ("compare", ("compare",)),
    ("diagnose", ("stages", "diagnose")),
    ("report", ("report", "explain")),
    ("label", ("label",)),
    ("audit", ("audit",)),
    ("labels", ("labels check", "labels move")),
    ("measures", ("measures",)),
    ("validate", ("validate",)),
    ("ledger", ("ledger stats", "ledger export", "ledger import")),
)
"""The verbs of each module, in the order of the help; a module is imported when one of its verbs is called."""
VERBS = {
    verb: (module, f"{name}_" if iskeyword(name := verb.rpartition(" ")[2]) else name)
    for module, verbs in _MODULES
    for verb in verbs
}
"""The module and the function of each verb."""

_ABOUT = {
    "": "How good is the retrieval of a RAG system, what does that number rest on, and did a change help?",
    "labels": "Check gold labels against a changed corpus, and move them to its documents.",
    "ledger": "Show, export and import the stored answers of judges.",
}
"""The description of the program, and of each group of verbs."""


def function_of(verb: str) -> Callable[..., int | None]:
    """Return the function that runs a verb (`label`, `ledger stats`)."""
    module, name = VERBS.get(verb, ("", ""))
    own = f"germane.cli.{module}"
    result: Callable[..., int | None]
    result = getattr(import_module(own), name) if module else addons.load(addons.find("verbs", verb)[0])
    return result


def help_of(verb: str) -> str:
    """Return the docstring of a verb's function.

    It is read from the source, because importing the module would import everything that its verbs need.
    """
    if verb in VERBS:
        module, name = VERBS[verb]
        with suppress(OSError):  # there is no source, as in a zip archive
            source = Path(__file__).with_name(f"{module}.py").read_text("utf-8")
            return source.partition(f"\ndef {name}(")[2].split('"""', 2)[1]
    return function_of(verb).__doc__ or ""


def call(words: Sequence[str]) -> int:
    """Run the command in `words`, the words after `germane`, and return the exit code."""
    group = words[0] if words and words[0] in _ABOUT else ""
    rest = words[1:] if group else words
    first = rest[0] if rest else ""
    if first in {"", "-h", "--help"}:
        print(listing(group))
        return 0 if first else 2
    if not group and first == "--version":
        print(f"germane {__version__}")
        return 0
    verb = f"{group} {first}".lstrip()
    if verb not in VERBS and (first.startswith("-") or addons.find("verbs", verb) is None):
        if owner := addons.absent("verbs", verb):
            problem = f"{verb} is a command of the add-on {owner}, which is not installed"
            raise InputError(problem, fix="see germane --help")
        known = (*VERBS, *_ABOUT, *addons.all_of("verbs"))
        names = [name.removeprefix(f"{group} ") for name in known]
        what = "flag" if first.startswith("-") else "command"
        raise no_such(what, first, names, f"germane {group}".rstrip())
    about = "" if {"-h", "--help"}.isdisjoint(rest) else help_of(verb)
    values = parse(verb, about, rest[1:])  # prints help, if asked for, before any import
    return function_of(verb)(**values) or 0


def listing(group: str) -> str:
    """Return the help that lists the verbs of a group, each with the first line of its help.

    If `group` is "", all verbs without a group and all groups are listed.
    """
    own = [verb for verb in VERBS if verb.rpartition(" ")[0] == group]
    about = {verb: help_of(verb).partition("\n")[0] for verb in own}
    added = addons.all_of("verbs", installed=True).items()
    more = {verb: words for verb, (_, words) in added if verb.rpartition(" ")[0] == group}
    options = {"-h, --help": "Show this help; also after the command."}
    if group:
        about, more = about | more, {}
    else:
        about |= {name: words for name, words in _ABOUT.items() if name}
        debug = "Show the traceback of an error; also after the command."
        options = {"--version": "Print the version.", "--debug": debug, **options}
    lines = [f"usage: germane {f'{group} '.lstrip()}COMMAND ...", "", paragraphs(_ABOUT[group])]
    for title, entries in (("Commands", about), ("Commands of add-ons", more), ("Options", options)):
        lines += ["", f"{title}:"] if entries else []
        for name, words in entries.items():
            head = f"  {name.removeprefix(f'{group} '):11} "
            lines += wrapped(words, width() - 2, initial_indent=head, subsequent_indent=" " * 14)
    return "\n".join(lines)


wrapped = partial(wrap, break_on_hyphens=False)
"""Split a text into lines; a flag or a name with hyphens stays whole."""


def width() -> int:
    """Return the width of help texts in columns."""
    return min(shutil.get_terminal_size((80, 24)).columns, 100)


def paragraphs(text: str) -> str:
    """Return the paragraphs of a docstring, filled to the width of the terminal."""
    joined = (" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))
    return "\n\n".join("\n".join(wrapped(paragraph, width() - 2)) for paragraph in joined)


def no_such(what: str, word: str, names: Iterable[str], command: str) -> InputError:
    """Return the error for the unknown command or flag `word`, which suggests the nearest of `names`.

    If no name is near, the error says that `command` --help lists them. `what` is "command" or "flag".
    """
    from germane.samples.files import nearest

    near = nearest(word, names, 0.6)
    fix = f"did you mean {near}?" if near else f"see {command} --help"
    return InputError(f"unknown {what} {word}", fix=fix)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help so that the value of a flag is shown once, after the last spelling of the flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width() - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        value = action.metavar if action.nargs != 0 else None
        return " ".join(filter(None, (", ".join(action.option_strings), str(value or ""))))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)


class _Once(argparse.Action):
    """The action of a flag with one value: if the flag is repeated, the last value counts, with a warning."""

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
        """Print help on stdout. If stdout is a closed pipe, an error is raised; argparse would ignore it."""
        del file
        print(self.format_help(), end="")

    def error(self, message: str) -> NoReturn:
        """Raise an InputError with the problem."""
        raise InputError(message.removeprefix("argument "), fix=f"see {self.prog} --help")


def parse(verb: str, about: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a verb's parameters, given by `words`, the words after the verb.

    If help is asked for, print it with the description `about` and raise SystemExit. Raises InputError for
    invalid words.
    """
    helping = not {"-h", "--help"}.isdisjoint(words)
    flags = flags_of(verb, installed=helping)
    parser = _parser(verb, flags, about if helping else None)
    end = words.index("--") if "--" in words else len(words)
    namespace, rest = parser.parse_known_intermixed_args(words[:end])
    if rest:
        if len(flags_of(verb, installed=True)) > len(flags):  # those flags are now loaded
            return parse(verb, about, words)
        name, command = rest[0].partition("=")[0], f"germane {verb}"
        if name in {"-", ""} or not name.startswith("-"):
            raise InputError(f"unexpected argument {rest[0]!r}", fix=f"see {command} --help")
        if owner := addons.absent("flags", name):
            problem = f"{name} is a flag of the add-on {owner}, which is not installed"
            raise InputError(problem, fix=f"see {command} --help")
        if verbs := [verb for flag in FLAGS if name in flag.spellings for verb in flag.verbs.split(",")]:
            fix = f"it is a flag of germane {', '.join(dict.fromkeys(verbs))}; see {command} --help"
            raise InputError(f"unknown flag {name}", fix=fix)
        raise no_such("flag", name, [spelling for flag in flags for spelling in flag.spellings], command)
    values = vars(namespace)
    more = list(words[end + 1 :])  # arguments, even words that begin with a dash
    for flag in flags:
        if flag.argument and flag.several:
            values[flag.parameter] = [*(values[flag.parameter] or ()), *map(flag.kind, more)]
            more = []
        elif flag.argument and more and values[flag.parameter] is None:
            values[flag.parameter] = flag.kind(more.pop(0))
        given = values[flag.parameter] not in (None, [])
        if not given and (flag.required or (flag.argument and not flag.spelling.startswith("["))):
            parser.error(f"{flag.long.removesuffix('...')} is missing")
        if given and flag.read is not None:
            values[flag.parameter] = flag.read(values[flag.parameter], flag.long)
    if more:
        parser.error(f"unexpected argument {more[0]!r}")
    return values


def _parser(verb: str, flags: Sequence[Flag], about: str | None) -> _Parser:
    """Return the parser of a verb with these flags."""
    parser = _Parser(
        f"germane {verb}",
        usage=" ".join([f"germane {verb}", *(flag.spelling for flag in flags if flag.argument), "[OPTIONS]"]),
        description=about and paragraphs(about),
        formatter_class=_HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    for flag in flags:
        how: dict[str, Any] = {"help": flag.help_for(verb).replace("%", "%%")} if about is not None else {}
        if not flag.argument:
            how["dest"] = flag.parameter
        if flag.kind is bool:
            how |= {"action": "store_true"}
        else:
            default = None if flag.unset or verb == "run" else flag.default
            how |= {"metavar": flag.metavar, "type": partial(_value_of, flag), "default": default}
        if flag.argument:  # unknown flags are reported before missing arguments
            how |= {"nargs": "*" if flag.several else "?"}
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
    """Return the value of a flag that is written as the string `text`."""
    if text == "-" and flag.kind is Path and flag.group == OUTPUT:
        problem = f"{flag.long} - is not a file: it takes neither stdin nor stdout"
        raise InputError(problem, fix="name a file (--json and --trec print on stdout)")
    if flag.kind is Path and "://" in text and flag.at_url != "kept":
        if flag.at_url == "refused":
            problem = f"{flag.long.strip('.')} is written to, so it is a local path, not {mask_urls(text)}"
            raise InputError(problem, fix="name a local path")
        from germane.samples.files import local  # not at the top: most commands name none

        return local(text)
    with suppress(ValueError):
        if flag.allows(value := flag.kind(text)):
            return value
    raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected {flag.expected}")
