"""The verbs of the command line: their functions, and the help that lists them.

The parameters of a verb's function are its flags, by the table of flags. It calls the library, prints, and returns the exit
code; None is 0. Its docstring is the verb's help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from textwrap import fill

from germane import addons
from germane.cli.parser import no_such, paragraphs, parse, width
from germane.errors import InputError
from germane.version import __version__

_MODULES = {
    "init": ("init", "demo"),
    "run": ("run",),
    "rank": ("rank",),
    "score": ("score",),
    "compare": ("compare",),
    "diagnose": ("stages", "diagnose"),
    "report": ("report", "explain"),
    "label": ("label",),
    "audit": ("audit",),
    "labels": ("labels check", "labels move"),
    "measures": ("measures",),
    "validate": ("validate",),
    "ledger": ("ledger stats", "ledger export", "ledger import"),
}
"""The verbs of each module, in the order of the help; a module is imported when one of its verbs is called."""
VERBS = {verb: module for module, verbs in _MODULES.items() for verb in verbs}

_ABOUT = {
    "": "How good is the retrieval of a RAG system, what does that number rest on, and did a change help?",
    "labels": "Check gold labels against a changed corpus, and move them to its documents.",
    "ledger": "Show, export and import the stored answers of judges.",
}
"""The description of the program, and of each group of verbs."""


def function_of(verb: str) -> Callable[..., int | None]:
    """Return the function that runs a verb (`label`, `ledger stats`)."""
    result: Callable[..., int | None]
    if (module := VERBS.get(verb)) is None:
        result = addons.load(addons.find("verbs", verb)[0])
    else:
        result = getattr(import_module(f"germane.cli.{module}"), _function_name(verb))
    return result


def _function_name(verb: str) -> str:
    name = verb.rpartition(" ")[2]
    return f"{name}_" if iskeyword(name) else name


def help_of(verb: str) -> str:
    """Return the docstring of a verb's function, from the source: importing its module would import all that its verbs need."""
    if (module := VERBS.get(verb)) is not None:
        with suppress(OSError):  # there is no source, as in a zip archive
            source = Path(__file__).with_name(f"{module}.py").read_text("utf-8")
            return source.partition(f"\ndef {_function_name(verb)}(")[2].split('"""', 2)[1]
    return function_of(verb).__doc__ or ""


def call(words: Sequence[str]) -> int:
    """Run the verb in the words after `germane`, and return the exit code."""
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
    values = parse(verb, help_of(verb), rest[1:])  # prints help, if asked for, before any import
    return function_of(verb)(**values) or 0


def listing(group: str) -> str:
    """Return the help that lists the verbs, or those of a group, each with the first line of its help."""
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
            lines.append(fill(words, width() - 2, initial_indent=head, subsequent_indent=" " * 14))
    return "\n".join(lines)
