"""The cases of an eval file, in the older generation's words, the newer one's, and our own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from germane.samples.cases import Case, GraderSpec
from germane.samples.fields import SPELLINGS
from germane.samples.graderspecs import by_name, read_assertions, read_graders, read_rubrics
from germane.samples.messagefiles import content_text, input_files, messages_at
from germane.samples.notices import Notice, Warn, nearest
from germane.samples.rows import RowReader
from germane.samples.section import Section
from germane.samples.yamltext import Node
from germane.types import Json, Message

__all__ = ["Defaults", "read_case", "section_graders"]


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a file says for all its cases. `replaced`: a case's own graders stand in place of the file's."""

    folder: Path
    graders: tuple[GraderSpec, ...]
    target: str | None
    replaced: bool
    warn: Warn | None


def section_graders(section: Section, folder: Path) -> tuple[GraderSpec, ...]:
    """The graders that a mapping lists, under any of the names for it."""
    return by_name(
        (
            *read_graders(section.take("measures", "metrics"), folder),
            *read_graders(section.take("evaluators"), folder),
            *read_assertions(section.take("assertions", "assert"), folder),
        )
    )


def read_case(node: Node, number: int, defaults: Defaults) -> Case:
    """One case; `number` is its id where it has none."""
    section = Section(node, "a case")
    own, target = _execution(section, defaults)
    folder = defaults.folder
    question = section.text("question", "query")
    asked = messages_at(section.take("input_messages", "input"), "user", folder)
    expected = messages_at(section.take("expected_messages", "expected_output"), "assistant", folder)
    outcome = section.text("expected_outcome", "outcome", "criteria") or ""
    reference = section.text("reference_answer") or _last(expected)
    graders = by_name((*own, *read_rubrics(section.take("rubrics"), folder)))
    conversation = section.text("conversation_id")
    identity = section.text("id")
    query, history = _asked(question, asked)
    row: dict[str, Json] = {"id": identity or str(number), "query": query or None}
    row["reference"] = section.text("reference", "ground_truth", "expected") or reference or outcome or None
    row |= _others(section, defaults.warn)
    sample = RowReader(warn=defaults.warn).read(row, number, node.at)
    if history and not sample.history:
        sample = replace(sample, history=history)
    guidelines, files = input_files(asked)
    return Case(
        sample=sample,
        graders=graders,
        target=target,
        place=node.place,
        question=query,
        expected_outcome=outcome,
        reference_answer=reference,
        input_messages=asked or (Message(role="user", content=query),),
        expected_messages=expected,
        guideline_files=guidelines,
        input_files=files,
        conversation_id=conversation,
        metadata=sample.metadata,
    )


def _execution(section: Section, defaults: Defaults) -> tuple[tuple[GraderSpec, ...], str | None]:
    """The graders and the target of a case: its own, else the file's; no mapping of its own voids the file's."""
    own = section_graders(section, defaults.folder)
    target = section.text("target")
    skip = False
    if execution := section.section("execution"):
        own = by_name((*own, *section_graders(execution, defaults.folder)))
        target = target or execution.text("target")
        skip = execution.flag("skip_defaults")
        execution.finish(defaults.warn)
    if skip or (own and defaults.replaced):
        return own, target or defaults.target
    names = {grader.name for grader in own}
    return (*(g for g in defaults.graders if g.name not in names), *own), target or defaults.target


def _asked(question: str | None, messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The query of a case, and what was said before it."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    history = tuple(message for message in messages[:last] if message.role != "system")
    said = content_text(messages[last].content) if users else ""
    return question or said, history


def _last(expected: tuple[Message, ...]) -> str:
    """The content of the last expected message that has one."""
    return next((content_text(m.content) for m in reversed(expected) if m.content is not None), "")


def _others(section: Section, warn: Warn | None) -> dict[str, Json]:
    """What else a case says: fields of a sample; every other key goes to its metadata, and is said aloud."""
    row: dict[str, Json] = {}
    metadata = section.mapping("metadata")
    for key, node in section.rest():
        if key in SPELLINGS:
            row[key] = node.json()
            continue
        metadata[key] = node.json()
        if key != "note" and warn is not None:
            near = nearest(key, [*SPELLINGS, *_CASE_KEYS])
            fix = f"did you mean {near!r}?" if near else "put it under metadata:"
            warn(Notice(f"a case has no key {key!r}: it is kept as metadata", fix, section.node.keys[key]))
    return {**row, "metadata": metadata}


_CASE_KEYS = (
    "question",
    "input_messages",
    "expected_messages",
    "expected_outcome",
    "outcome",
    "criteria",
    "rubrics",
    "execution",
    "evaluators",
    "assertions",
    "measures",
    "conversation_id",
    "target",
)
