"""What docs/addons/agentv.md says of AgentV's eval files, and their JSON Schema; scripts/reference_pages.py writes both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import get_args

from scripts.reference_pages import (
    DOCS,
    HIDDEN,
    Schema,
    aliases_of,
    fields,
    first_sentence,
    measure_schema,
    properties,
    sample_schema,
    spelled,
    table_of,
)

from germane.addons import load, own
from germane.addons.agentv.evalfile import AgentVFile, CaseEntry, Execution
from germane.addons.agentv.graders.composite import Aggregator
from germane.addons.agentv.graders.field_accuracy import FieldRule
from germane.addons.agentv.graders.llm_grader import RubricItem
from germane.addons.agentv.graders.rules import ExpectedCall, Test, TextAssertion
from germane.evalfiles import EvalFile
from germane.evalfiles.model import YamlModel
from germane.graders import CaseGrader
from germane.measures.measure import definitions

_KINDS = own()["agentv"].graders
TYPES: dict[str, type[CaseGrader]] = {
    name: load(kind.make) for name, kind in _KINDS.items() if not kind.fixed
}
ALIASES = {other: name for name in TYPES for other in _KINDS[name].aliases}


_LISTS = {"measures", "evaluators", "assertions"}
"""The keys for graders, which the file, a case and `execution` have alike."""


def grader_types() -> dict[str, list[str]]:
    """Each type of grader that is not a measure, in every spelling."""
    found = {name: spelled(name) for name in TYPES}
    for other, name in ALIASES.items():
        found[name] += spelled(other)
    return found


def agentv_schema() -> Schema:
    """The JSON Schema of an eval file of AgentV's, for editors: completion, descriptions, and a mark under what cannot be right.

    What it cannot say (names that must differ, files that must exist, measures' parameters) `germane validate` says.
    """
    sample = json.loads(json.dumps(sample_schema()).replace('"#/properties/', '"#/$defs/sample/properties/'))
    kinds = grader_types()
    tests = [word for test in get_args(Test) for word in spelled(test)]
    names = [definition.name for definition in definitions()]
    _, common = measure_schema()
    grader: Schema = {
        "type": "object",
        "properties": {
            "type": {
                "description": "A measure's name (`germane measures`), or a grader.",
                "anyOf": [{"enum": [*chain(*kinds.values()), *tests, *dict.fromkeys(names)]}, {"type": "string"}],
            },
            **common,
        },
        "allOf": [
            {
                "if": {"properties": {"type": {"enum": spellings}}, "required": ["type"]},
                "then": {"properties": {**properties(TYPES[name], aliases_of(TYPES[name]))}},
            }
            for name, spellings in kinds.items()
        ],
    }  # fmt: skip
    for case in grader["allOf"]:  # members and aggregators are graders again
        for key in ("graders", "evaluators", "assertions", "assert", "members"):
            if key in case["then"]["properties"]:
                case["then"]["properties"][key] = {"$ref": "#/$defs/graders"}
    graders = {"$ref": "#/$defs/graders"}
    lists = dict.fromkeys(("measures", "metrics", "evaluators", "assertions", "assert"), graders)
    execution = {**properties(Execution, aliases_of(Execution)), **lists}
    own = {**properties(CaseEntry, aliases_of(CaseEntry)), **lists}
    own["execution"] = {"$ref": "#/$defs/execution"}
    case = {"type": "object", "properties": {**sample["properties"], **own}}
    for key in ("input_messages", "expected_messages", "input", "expected_output"):
        for spelling in spelled(key):
            own[spelling] = case["properties"][spelling] = {"$ref": "#/$defs/messages"}
    for key in spelled("id"):
        case["properties"][key] = {
            "description": "Its name; else its number.",
            "type": ["string", "number", "null"],
        }
    whole = {
        **properties(AgentVFile, aliases_of(AgentVFile)),
        **lists,
        "execution": {"$ref": "#/$defs/execution"},
    }
    cases = {"type": ["array", "null"], "items": {"$ref": "#/$defs/case"}}
    whole |= {key: {"description": "The cases.", **cases} for key in ("evalcases", "tests", "cases")}
    whole |= {key: {} for key in AgentVFile.ignored if key not in whole}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AgentV eval file, as germane reads it",
        "description": "What to evaluate, by which graders, and what must be reached.",
        "type": "object",
        "properties": whole,
        **HIDDEN,
        "$defs": {
            **sample["$defs"],
            "sample": {"properties": sample["properties"]},
            "case": case,
            "grader": grader,
            "graders": {
                "description": "Names of measures, or graders.",
                "anyOf": [
                    {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/grader"}]}},
                    {"$ref": "#/$defs/grader"},
                    {"type": ["string", "null"]},
                ],
            },
            "execution": {"anyOf": [{"type": "object", "properties": execution, **HIDDEN}, {"type": "null"}]},
            "messages": {
                "description": "A text, or messages of {role, content}.",
                "anyOf": [
                    {"type": ["string", "number", "boolean", "null", "object"]},
                    {"type": "array", "items": {"type": "object", "required": ["role"]}},
                ],
            },
        },
    }


def _names_of(model: type[YamlModel], left: set[str]) -> str:
    """Return the names of a mapping's keys, without those that are left out."""
    shown = [name for name in fields(model) if name not in left]
    return ", ".join(f"`{name}`" for name in shown)


def section() -> str:
    """The tables of keys."""
    parts = [
        "## The file, a case, execution\n",
        "What each key means stands in [the schema](../schema/agentv.schema.json), which editors show. Beside the keys of [our own eval",
        f"files](../reference/evalfile.md) a file has {_names_of(AgentVFile, set(EvalFile.model_fields))}, and its cases under one of `evalcases`,",
        "`tests`, `cases`: a list.\n",
        f"A case has {_names_of(CaseEntry, _LISTS)}, `measures`, `evaluators` or `assertions` of its own (under `evalcases` they replace the",
        "file's, elsewhere they come on top), and any field of [a sample](../samples.md); other keys are metadata.",
        f"`execution` has {_names_of(Execution, _LISTS)}.\n",
        "## Every grader\n",
        "A measure's name ([measures.md](../measures.md)), or a mapping with `type` (or `metric`, `measure`), on top or under `config`. Every",
        "grader has `name`, `weight`, `required`, `min_score`, and a measure what [our eval files](../reference/evalfile.md#a-measure)",
        "have too. `type:` may be:\n",
    ]
    for name, model in TYPES.items():
        others = [other for other, meant in ALIASES.items() if meant == name]
        also = f" Also written {', '.join(f'`{other}`' for other in others)}." if others else ""
        parts += [
            f"### {name}\n\n{first_sentence(model)}{also}\n",
            table_of(model, aliases_of(model), leave=CaseGrader),
        ]
    parts += [
        f"### Text assertions\n\n`type:` {', '.join(f'`{test}`' for test in get_args(Test))}.\n",
        table_of(TextAssertion, aliases_of(TextAssertion), leave=CaseGrader, hide={"test"}),
    ]
    parts_of: dict[str, type[YamlModel]] = {
        "An item of `rubrics`": RubricItem, "An item of `fields`": FieldRule,
        "An item of `expected`": ExpectedCall, "`aggregator`": Aggregator,
    }  # fmt: skip
    for title, part in parts_of.items():
        parts += [f"### {title}\n", table_of(part, aliases_of(part))]
    return "\n".join(parts)


def files() -> Iterator[tuple[Path, str]]:
    """The schema."""
    yield (
        DOCS / "schema" / "agentv.schema.json",
        json.dumps(agentv_schema(), ensure_ascii=False, indent=1) + "\n",
    )
