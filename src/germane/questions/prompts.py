"""Prompt files: load and hash them, and write their inputs as tagged sections.

A prompt file contains only instructions. The inputs follow as `<name>...</name>` sections; inputs that many
requests have in common come first, for a provider's prompt cache. A custom file may instead place the inputs
itself with `{{name}}`. An inserted value is not searched for variables, and it cannot close the section that
contains it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Container, Mapping
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from germane.errors import InputError, SourceLocation
from germane.questions.question import AnyQuestion, Prompt, known_kinds
from germane.samples.files import location_in
from germane.types import Json

__all__ = ["variables_in", "worded"]

FOLDER = Path(__file__).with_name("prompts")
FIRST = ("history", "query", "reference", "response", "criterion")
LAST = ("passage", "contexts", "text", "claims", "statements", "nuggets")
OF_AUTHOR = {"query", "reference", "criterion"}
"""Sections that were written by the author of the test set. Their tags need no code; see `tag_code`."""
TAGGED = {"contexts", "passages"}
NONE = "(none)"

_VARIABLE = re.compile(r"\{\{([^{}\n]*)\}\}")
_WORDS = re.compile(r"\W+")
_OWN_TAG = re.compile(r"<\s*/?\s*(\w[\w.:-]*)")
_CONTROL = (
    r"\||/?(?:s|bos|eos|pad|unk|sys|tool_calls?|tool_response|end_of_utterance)>|/?(?:start|end)_of_turn"
)
"""Control tokens of chat templates, without the opening bracket."""
_SQUARE = re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])")
"""The opening bracket of Mistral's and Llama 2's control tokens, which are written in capitals."""


def variables_in(template: str) -> frozenset[str]:
    """Return the names of the variables (written as `{{name}}`) in a template."""
    return frozenset(name.strip() for name in _VARIABLE.findall(template))


_MARK = ""  # in a template's pieces, the variable name that stands for the request's `tag_code`


def _cut(text: str, names: Container[str], *, framed: bool = False) -> tuple[str, ...]:
    """Split a template into pieces that are alternately text and the name of a variable in `names`.

    With `framed`, each variable is put between tags of its name, which end in the request's `tag_code`.
    """
    pieces, last = [""], 0
    for match in _VARIABLE.finditer(text):
        name = match[1].strip()
        if name in names:
            pieces[-1] += text[last : match.start()] + f"<{name}" * framed
            pieces += [_MARK, ">", name, f"</{name}", _MARK, ">"] if framed else [name, ""]
            last = match.end()
    pieces[-1] += text[last:]
    return tuple(pieces)


def fill(prompt: Prompt, inputs: Mapping[str, Json]) -> str:
    """Return a template with each variable replaced by its input, or by "(none)" if it has no input."""
    texts, names = prompt.pieces[::2], prompt.pieces[1::2]
    tags = frozenset(_OWN_TAG.findall("".join(texts)))  # a value must not close the template's own tags
    code = tag_code(next((inputs[name] for name in names if name in inputs), ""))
    fields = {name: inside(name, inputs[name], tags, code) for name in names if name in inputs}
    fields[_MARK] = f"-{code}"
    values = [fields.get(name, NONE) for name in names]
    return "".join(a + b for a, b in zip(texts, [*values, ""], strict=True))


def _check_template(name: str, question: type[AnyQuestion], text: str, path: Path) -> None:
    visible = set(question.prompt_fields())
    values = {f.name for f in fields(question) if f.default is MISSING and f.default_factory is MISSING}  # type: ignore[arg-type]
    fix = f"use {', '.join(f'{{{{{variable}}}}}' for variable in sorted(visible))}, or no variables at all"
    for match in _VARIABLE.finditer(text):
        if match[1].strip() not in visible:
            problem = f"the variable {match[0]} is not an input of the prompt {name}"
            raise InputError(problem, fix=fix, place=location_in(path, text, match.start()))
    for missing in sorted(values & set(question.item_fields) & visible - variables_in(text)):
        problem = f"the prompt {name} lacks the variable {{{{{missing}}}}}, which is to be judged"
        raise InputError(problem, fix=fix, place=SourceLocation(str(path)))


def fingerprint(*texts: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of the texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def load(name: str, path: Path | None = None, question: type[AnyQuestion] | None = None) -> Prompt:
    """Return the prompt `name` from the file `path`, or else germane's own.

    Raises InputError if there is no such prompt, or if the file is invalid.
    """
    for installed in (False, True):  # other packages' add-ons are searched only for a name that is unknown
        if question is None:
            kinds = known_kinds(installed=installed)
            named = [kind for kind in kinds if f"{name}_".startswith(f"{kind}_")]
            question = kinds[max(named, key=len)] if named else None  # the longest kind
    if question is None:
        names = ", ".join(sorted({*kinds, *(p.stem for p in FOLDER.glob("[!_]*.md"))}))
        raise InputError(f"there is no prompt named {name!r}", fix=f"use one of {names}")
    file = path or FOLDER / f"{name}.md"
    place = SourceLocation(str(file))
    try:
        text = file.read_text("utf-8-sig").replace("\r\n", "\n").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "the file is not UTF-8 text"
        raise InputError(f"the prompt {name} cannot be read: {why}", place=place) from None
    if not text:
        raise InputError(f"the prompt {name} is empty", place=place)
    pieces: tuple[str, ...] = ()
    wording = text
    if path and _VARIABLE.search(text):
        _check_template(name, question, text, file)
        pieces = _cut(text, question.prompt_fields())
        wording = _VARIABLE.sub(lambda match: f"{{{{{match[1].strip()}}}}}", text)
    notes = map(fragment, sorted(question.prompt_fields()))
    descriptions = question.usual_payload().model_descriptions()
    return Prompt(text, fingerprint(fragment("frame"), *notes, *descriptions, wording), pieces)


@lru_cache(256)
def worded(text: str, variables: frozenset[str] = frozenset(), system: str | None = None) -> Prompt:
    """Return the prompt that a question contains itself, in place of a prompt file.

    In the template `text`, `{{name}}` is replaced if the name is in `variables`, and left unchanged
    otherwise. If `system` is None, the usual system prompt is used.
    """
    system = fragment("frame") if system is None else system
    pieces = _cut(text, variables, framed=True)
    return Prompt(text, fingerprint(system, text), pieces, system)


@cache
def fragment(name: str) -> str:
    """Return a text that prompts of several kinds contain; "" if there is no text of that name."""
    file = FOLDER / f"_{name}.md"
    return file.read_text("utf-8").strip() if file.exists() else ""


class Prompts(dict[str, Prompt]):
    """The prompts by name, loaded on first use; `custom` maps names to the user's files, loaded at once."""

    def __init__(self, custom: Mapping[str, str | Path] | None = None) -> None:
        super().__init__({name: load(name, Path(path)) for name, path in (custom or {}).items()})

    def of(self, question: AnyQuestion) -> Prompt:
        """Return the prompt of a question: its own if it contains one, else that of its kind."""
        if (own := question.wording) is not None:
            return own
        if (name := question.prompt) not in self:
            # the type that the prompt is named after, and no subclass of it, decides on the hash
            kinds: list[Any] = [kind for kind in reversed(type(question).__mro__) if "kind" in vars(kind)]
            owner = next((kind for kind in kinds if f"{name}_".startswith(f"{kind.kind}_")), None)
            self[name] = load(name, question=owner)
        return self[name]


def section_order(name: str) -> int:
    """Return a sort key: shared inputs come first, then the text, then the claims to judge."""
    if name in LAST:
        return 100 + LAST.index(name)
    return FIRST.index(name) if name in FIRST else len(FIRST)


_SUSPECT = re.compile("[<\uff1c\ufe64\u2039\u3008\u27e8]")  # the opening bracket and similar characters


@lru_cache(64)
def _tags(more: frozenset[str]) -> re.Pattern[str]:
    """Return a regular expression for the opening bracket of a section tag, numbered tag or control token.

    A tag may contain white space anywhere. Quantifiers are possessive, so that no text makes the search slow.
    """
    words = {*FIRST, *LAST, *TAGGED, *more}
    words |= {word.removesuffix("s") for word in words}
    names = "|".join(map(re.escape, sorted(words)))
    number = r"/\s*+\d|\d++(?:\s[^<>]*+)?[>\uff1e\ufe65\u203a\u3009\u27e9]|\d++-"
    ours = rf"\s*+(?:(?:/\s*+)?(?:{names})\b|{number})"
    return re.compile(rf"{_SUSPECT.pattern}(?={ours}|{_CONTROL})", re.IGNORECASE)


def clean(text: str, names: frozenset[str] = frozenset()) -> str:
    """Escape the opening brackets of section tags, of `names`, and of chat templates' control tokens."""
    if _SUSPECT.search(text):
        text = _tags(names).sub("&lt;", text)
    return _SQUARE.sub("&#91;", text) if "[" in text else text


_SECRET = secrets.token_bytes(32)


def tag_code(first: Json) -> str:
    """Return four characters that end the tags of a request, so that retrieved text cannot close the tags.

    They depend on a secret of this process and on `first`, the first text of the request. So requests
    for the same query begin alike, and a provider can cache the beginning. They are not part of any key.
    """
    drawn = hashlib.blake2b(json.dumps(first).encode(), key=_SECRET, digest_size=5).digest()
    return base64.b32encode(drawn).decode().lower()[:4]


def inside(name: str, value: Json, tags: frozenset[str] = frozenset(), code: str = "") -> str:
    """Return the content of the section `name`, escaped so that it cannot close the section."""
    names = tags | {name}
    if isinstance(value, str):
        return clean(value, names)
    if name in TAGGED:
        ends = f"-{code}" if code else ""
        return "".join(f"<{n}{ends}>{clean(item, names)}</{n}{ends}>" for n, item in enumerate(value, 1))

    def line(text: str) -> str:  # without line breaks, which would begin another list item or turn
        return " ".join(clean(text, names).split())

    items: Any = value if isinstance(value, list | tuple) else [None]
    if all(isinstance(item, str) for item in items):
        return "\n".join(f"{n}. {line(item)}" for n, item in enumerate(items, 1))
    if all(isinstance(turn, list | tuple) and len(turn) == 2 for turn in items):
        return "\n".join(f"{_WORDS.sub(' ', role).strip()}: {line(text)}" for role, text in items)
    return clean(json.dumps(value, ensure_ascii=False), names)


def show(name: str, value: Json, code: str = "") -> str:
    """Return a value as one section: its content between tags of this `name` that end in `code`."""
    tag = f"{name}-{code}" if code else name
    return f"<{tag}>{inside(name, value, code=code)}</{tag}>"
