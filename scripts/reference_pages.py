"""Write docs/reference/*.md and the schemas of samples and eval files (docs/schema): what eval files, targets, gates and germane.toml may say.

The keys, their spellings, values and defaults are those of the models; what a key means stands in the model's docstring
under `Attributes:`. Run it after a change there: `.venv/bin/python scripts/reference_pages.py`.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import UnsetType, structs
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

import germane
from germane.addons import own
from germane.cli.verbs import VERBS, function_of
from germane.comparison.formats import Comparison
from germane.diagnosis.diagnosis import SystemDiagnosis
from germane.diagnosis.stages import SystemStages
from germane.encoding import Line
from germane.evalfiles import EvalFile
from germane.evalfiles.model import YamlModel
from germane.flags import FLAGS, SETTINGS, Flag, flags_of
from germane.folder.files import SCHEMA_VERSION
from germane.graders.specs import MeasureGrader
from germane.labelling.audit import AuditDocument, JudgesAudit
from germane.labelling.corpus import LabelsCheckDocument, LabelsMoveDocument
from germane.labelling.goldaudit import GoldAudit
from germane.labelling.testset.checks import ValidationDocument
from germane.ledger.store import FORMAT
from germane.reports.explain import ExplainDocument
from germane.reports.formats import Document
from germane.reports.gates import _IN_WORDS, FUNCTIONS
from germane.samples.fields import FIELDS, IDS, PASSAGE, PASSAGE_SPELLINGS, SPELLINGS, Field, spellings
from germane.targets.target import Models
from germane.targets.targetsfile import PROVIDERS
from germane.types import Sample

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = DOCS / "schema" / "evalfile.schema.json"
SAMPLE_SCHEMA = DOCS / "schema" / "sample.schema.json"
DOCUMENTS: dict[str, Any] = {
    "report": Document,
    "comparison": Comparison,
    "explain": ExplainDocument,
    "audit": AuditDocument,
    "gold-audit": GoldAudit,
    "judges-audit": JudgesAudit,
    "validation": ValidationDocument,
    "stages": list[SystemStages],
    "diagnosis": list[SystemDiagnosis],
    "labels-check": LabelsCheckDocument,
    "labels-move": LabelsMoveDocument,
}
"""The documents of --json whose schemas are published."""
MADE = "<!-- made by scripts/reference_pages.py of the models: change them, then run it -->\n"
Schema = dict[str, Any]

WORDS = {
    "name": "The name that `target:` and `--target` use.",
    "workers": "Queries in flight.",
    "models": "The system's models, `{generator, reranker, rewriter}`; the audit warns of a judge of their family.",
    "generator": "The model that writes the answer.",
    "reranker": "The model that reranks.",
    "rewriter": "The model that rewrites queries.",
    "response": "The answer to every query: text, or a mapping with `response`, `contexts`, `messages`.",
    "responses": "Answers by case id; default: `response`.",
    "command_template": 'The command, with `{PROMPT}`, `{EVAL_ID}`, `{ATTEMPT}`, `{FILES}` and `{OUTPUT_FILE}`: a text for a shell, in which each is a quoted variable (`"$GERMANE_PROMPT"`), or a list of a program and its arguments.',
    "cwd": "Working directory, relative to the targets file.",
    "timeout": "Seconds for an answer.",
    "env": "Further environment variables: names, or `{NAME: value}`.",
    "url": "The URL; `{{query}}` and the like are percent-encoded.",
    "method": "Default: GET, or POST with a body.",
    "headers": "Request headers; `${{ NAME }}` is an environment variable.",
    "body": "The body, with `{{query}}`, `{{id}}`, `{{trial}}`, `{{history}}`, `{{metadata}}`.",
    "answer_at": "JSON pointer to the answer in the response.",
    "contexts_at": "JSON pointer to the list of contexts.",
    "context": "Fields of a context, each with its JSON pointer: `{text: /chunk/body}`.",
    "retries": "Retries after a lost connection, 408, 425, 429 and 5xx.",
    "function": "`module:function`, or a retriever object.",
    "path": "Folders to import from, relative to the targets file.",
    "fields": "The fields to compare, see below.",
    "aggregation": "A weighted mean of the fields, or all of them.",
    "mode": "How calls are compared.",
    "minimums": "For `any_order`: the least calls of each tool, `{search: 1}`.",
    "expected": "The expected calls, see below.",
    "threshold": "Maximum milliseconds.",
    "budget": "Maximum US dollars.",
    "max_total": "Maximum tokens: input + output + cached.",
    "max_input": "Maximum input tokens.",
    "max_output": "Maximum output tokens.",
}
"""What keys mean whose models' docstrings are prose."""


class _Generator(GenerateJsonSchema):
    """Values that only Python makes (nodes, records) may be anything."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        del schema, error_info
        return {}


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What each field means: the entries under `Attributes:` in the docstrings of the model and its bases."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
        for entry in re.split(r"\n(?= {4}\w)", text.partition("\n\n")[0]):
            names, _, meaning = entry.strip().partition(": ")
            found |= {name.strip(): " ".join(meaning.split()) for name in names.split(",") if meaning}
    return found


def fields(model: type[BaseModel]) -> dict[str, Schema]:
    """The JSON Schema of each key that may be written."""
    schema = model.model_json_schema(schema_generator=_Generator)
    schema |= schema["anyOf"][-1] if "anyOf" in schema else {}  # a text may stand in the place of the mapping
    found: dict[str, Schema] = {}
    for name, inner in schema["properties"].items():
        if name not in getattr(model, "computed", ()):
            kept = {key: value for key, value in inner.items() if key != "title"}
            found[name] = _inlined(kept, schema.get("$defs", {}))
    return found


def _inlined(schema: Any, definitions_: Mapping[str, Schema]) -> Any:
    """The schema without references; a model inside a model is a mapping."""
    if isinstance(schema, list):
        return [_inlined(one, definitions_) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _inlined(definitions_[name], {**definitions_, name: {"type": "object"}})
    return {
        _BOUNDS.get(key, key): _inlined(value, definitions_)
        for key, value in schema.items()
        if key not in {"title", "description"}
    }


_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "oneOf": "anyOf",
}
"""Of a bound that is checked after a function, pydantic writes its own name; which of several models it is, we say."""


def lenient(schema: Schema) -> Schema:
    """A value as YAML may hold it: null is absent, a text may look like a number, one thing stands for a list of it."""
    if "anyOf" in schema:
        options = [one for inner in schema["anyOf"] for one in lenient(inner).get("anyOf", [lenient(inner)])]
    elif schema.get("type") == "string" and "enum" not in schema:
        options = [schema, {"type": ["number", "boolean"]}]
    elif schema.get("type") == "array":
        items = lenient(schema.get("items", {})) if schema.get("items") else {}
        options = [{**schema, "items": items}, *(items.get("anyOf", [items]) if items else [])]
    else:
        options = [{"enum": [schema["const"]]} if "const" in schema else schema]
    unique = [one for n, one in enumerate([*options, {"type": "null"}]) if one not in options[:n]]
    return {"anyOf": [{k: v for k, v in one.items() if k != "default"} for one in unique]}


def spelled(name: str) -> list[str]:
    """A key in snake_case, camelCase and kebab-case."""
    head, *rest = name.split("_")
    return list(dict.fromkeys([name, head + "".join(map(str.capitalize, rest)), name.replace("_", "-")]))


def properties(model: type[BaseModel], others: Mapping[str, str]) -> Schema:
    """The properties of a mapping in every spelling; `others` are further names of fields."""
    words, found = meanings(model), dict[str, Schema]()
    names: dict[str, list[str]] = {}
    for other, name in others.items():
        names.setdefault(name, []).append(other)
    for name, schema in fields(model).items():
        shape = {"description": words.get(name) or WORDS[name], **lenient(schema)}
        for key in (name, *names.get(name, ())):
            found |= dict.fromkeys(spelled(key), shape)
    return found


def aliases_of(model: type[YamlModel]) -> dict[str, str]:
    return {other: name for name, listed in model.aliases.items() for other in listed}


def sample_schema() -> Schema:
    """The JSON Schema of one line of a samples file, aliases and camelCase included.

    What it cannot say: ids that must differ, counts that must agree, two spellings of one field, and that a grade
    is within `grade_scale`.
    """
    _, made = msgspec.json.schema_components([Sample], ref_template="#/$defs/{name}")
    definitions: Schema = {name: _as_written(one) for name, one in made.items() if name != "ToolCall"}
    schema, passage, message = definitions.pop("Sample"), definitions["Context"], definitions["Message"]
    evidence, shapes = definitions["Evidence"], schema["properties"]
    ids = {"type": "array", "items": _ID}
    passage["properties"] |= {name: {"type": "integer", "minimum": 0} for name in ("start", "end")}
    message["properties"]["role"] = {"type": "string", "minLength": 1}
    message["properties"]["tool_calls"] = _nullable({"type": "array", "items": {"type": "object"}})
    message["properties"]["toolCalls"] = {"$ref": "#/$defs/Message/properties/tool_calls"}
    shapes[IDS] = ids
    shapes["metadata"] = passage["properties"]["metadata"] = {}  # kept under its name where it is no mapping
    shapes["error"] = {}  # false is none; any other value is the reason
    shapes["query"]["pattern"] = r"\S"
    shapes["qrels"]["anyOf"].insert(1, ids)
    shapes["evidence"]["anyOf"][0]["items"] = _or_text(shapes["evidence"]["anyOf"][0]["items"])
    for name in ("history", "messages"):
        shapes[name] = _or_text(shapes[name])
    _with_spellings(passage, PASSAGE, "#/$defs/Context")
    _with_spellings(schema, FIELDS, "#")
    for read_on in (schema, passage, message):
        del read_on["additionalProperties"]  # other keys become metadata, or are passed over
    there = {"not": _NULL}
    names = [spelling for spelling, name in PASSAGE_SPELLINGS.items() if name in {"text", "id"}]
    passage["anyOf"] = [{"required": [name], "properties": {name: there}} for name in names]
    passage["not"] = {"required": ["grade", "relevant"], "properties": {"grade": there, "relevant": there}}
    evidence["anyOf"] = [_filled("quote"), _filled("doc", "start", "end")]
    graded = {"items": {"properties": {"grade": {"enum": [0, 1, 2, 3, None]}}}}
    lists = {spelling: graded for spelling, name in SPELLINGS.items() if name == "contexts"}
    scaled = [{"required": [name], "properties": {name: there}} for name in ("grade_scale", "gradeScale")]
    queries = [spelling for spelling, name in SPELLINGS.items() if name == "query"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "germane sample",
        "anyOf": [{"required": [query], "properties": {query: {"type": "string"}}} for query in queries],
        "if": {"anyOf": scaled},
        "else": {"properties": {**lists, "calls": {"items": {"properties": {"contexts": graded}}}}},
        "$defs": definitions,
    }


_NULL = {"type": "null"}
_ID: Schema = {"type": ["string", "integer"], "minLength": 1}
_OMITTED = {"title", "default", "required"}


def _as_written(schema: Any) -> Any:
    """The schema of a record as people may write it: ids as whole numbers too, a passage as its text."""
    if isinstance(schema, list):
        return [_as_written(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"type", "minLength"}:
        return _ID
    if schema == {"$ref": "#/$defs/Context"}:
        return _or_text(schema, least=0)
    found = {key: _as_written(one) for key, one in schema.items() if key not in _OMITTED}
    if schema.get("required") and schema["title"] != "Sample":
        found["required"] = schema["required"]
    if "title" in schema:
        found["description"] = schema["description"].partition("\n")[0]
    return found


def _or_text(schema: Schema, least: int = 1) -> Schema:
    return {"anyOf": [{"type": "string", **({"minLength": least} if least else {})}, schema]}


def _nullable(schema: Schema) -> Schema:
    shapes = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": shapes if _NULL in shapes else [*shapes, _NULL]}


def _with_spellings(schema: Schema, fields: Mapping[str, Field], at: str) -> None:
    """Null is the same as absent, and each other spelling of a field refers to it."""
    properties: Schema = {}
    for spelling, name in spellings(fields).items():
        if spelling != name:
            properties[spelling] = {"$ref": f"{at}/properties/{name}"}
            continue
        meaning, example = fields[name].meaning, fields[name].example
        about = {"description": meaning, **({} if example is None else {"examples": [example]})}
        properties[name] = {**about, **_nullable(schema["properties"][name])}
    schema["properties"] = properties


def _filled(*names: str) -> Schema:
    """The schema of an object in which all these are present, and none is null or empty."""
    filled = {"not": {"enum": [None, ""]}}
    return {"required": list(names), "properties": dict.fromkeys(names, filled)}


def measure_schema() -> tuple[Schema, Schema]:
    """The keys of an entry under `measures:`, and the keys that every grader has."""
    others = {other: name for other, name in aliases_of(MeasureGrader).items() if other != "threshold"}
    common = {
        key: shape
        for key, shape in properties(MeasureGrader, others).items()
        if key not in {"measure", "name"}
    }
    common |= {key: {"type": ["string", "null"]} for key in ("name", "metric", "measure")}
    kind = {"description": "A measure's name (`germane measures`).", "type": "string"}
    return {"type": "object", "properties": {"type": kind, **common}}, common


HIDDEN = {"patternProperties": {r"^(\$|x-|_)": {}}, "additionalProperties": False}
"""Keys that anybody may add, and no others."""


def evalfile_schema() -> Schema:
    """The JSON Schema of an eval file, for editors: completion, descriptions, and a mark under what cannot be right.

    What it cannot say (names that must differ, files that must exist, measures' parameters) `germane validate` says.
    """
    entry, _ = measure_schema()
    listed = {"type": "array", "items": {"anyOf": [{"type": "string"}, entry]}}
    measures = {
        "description": "Names of measures, or measures with options.",
        "anyOf": [listed, entry, {"type": ["string", "null"]}],
    }
    whole = {**properties(EvalFile, aliases_of(EvalFile)), "measures": measures, "metrics": measures}
    whole |= {key: {} for key in EvalFile.ignored if key not in whole}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "germane eval file",
        "description": "What to evaluate, by which measures, and what must be reached.",
        "type": "object",
        "properties": whole,
        **HIDDEN,
    }


_KEYS_AS_FLAGS = {"repeat", "batch", "reading", "against", "by", "doc_id"}


def evalfile_page() -> str:
    """docs/reference/evalfile.md."""
    parts = [
        "# Eval files, key by key\n",
        MADE,
        "Keys may be written in snake_case, camelCase or kebab-case; null is absent; a single value stands for a list of it. An",
        "unknown key is a warning with its line, one that is close to a known key (`gate`, `treshold`) an error. `germane validate FILE`",
        "says everything that is wrong, and runs nothing. Brackets hold what a value must be, if not text.\n",
        "An editor with a YAML language server completes and checks eval files that begin with this line (`germane validate --schema",
        "> evalfile.schema.json` writes the file):\n",
        "```yaml\n# yaml-language-server: $schema=evalfile.schema.json\n```\n",
        "## The file\n",
        table_of(EvalFile, aliases_of(EvalFile), hide=_KEYS_AS_FLAGS),
        f"{', '.join(f'`{key}`' for key in sorted(_KEYS_AS_FLAGS))}: as the flags of [`germane run`](commands.md#germane-run).\n",
        f"Known and without effect: {', '.join(f'`{key}`' for key in EvalFile.ignored)}. Files with cases (`evalcases`, `tests`) are",
        "AgentV's: [agentv](../addons/agentv.md).\n",
        "## A measure\n",
        "Its name ([measures.md](../measures.md)), or a mapping with `type` (or `metric`, `measure`) and these keys, on top or under `config`. Its",
        "parameters stand in the name or beside it: `type: nDCG, k: 10`.\n",
        table_of(MeasureGrader, aliases_of(MeasureGrader)),
    ]
    return "\n".join(parts)


def targets_page() -> str:
    """docs/reference/targets.md."""
    parts = [
        "# The targets file, key by key\n",
        MADE,
        "`targets.yaml` or `.agentv/targets.yaml`, searched from the eval file's folder up to the repository's root, or `--targets FILE`:",
        "`targets: [{name: ..., provider: ...}]`. `${{ NAME }}` anywhere in it is a variable of the environment. How targets are used:",
        "[targets.md](../targets.md).\n",
    ]
    common = set.intersection(*(set(fields(model)) for model in PROVIDERS.values()))
    defaults = ", ".join(f"{name} {fields(model)['workers']['default']}" for name, model in PROVIDERS.items())
    first = next(iter(PROVIDERS.values()))
    parts += ["## Every target\n", table_of(first, aliases_of(first), hide=set(fields(first)) - common)]
    parts[-1] = re.sub(r"(`workers` \(integer from 0)[^)]*", rf"\1; default: {defaults}", parts[-1])
    for name, model in PROVIDERS.items():
        parts += [
            f"## provider: {name}\n\n{first_sentence(model)}\n",
            table_of(model, aliases_of(model), hide=common),
        ]
    parts += ["## models\n", table_of(Models, {})]
    return "\n".join(parts)


def gates_page() -> str:
    """docs/reference/gates.md."""
    rows = "\n".join(f"- `{form}`: {meaning}" for form, meaning in FUNCTIONS.items())
    return f"""# Gates

{MADE}
A gate is `FUNCTION(MEASURE) OPERATOR LIMIT`, in `gates:` of an eval file or germane.toml, or `--fail-under 'lower(nDCG@10)>=0.7'`.
Operators: `>=`, `>`, `<=`, `<`, `==`, `=`, {", ".join(f"`{word}`" for word in _IN_WORDS)}. A limit is a number, or a percentage (`80%`);
the result says so if no value of the measure can meet it, or miss it (65 for `65%`).

MEASURE is a name as it is reported: `nDCG@10`, `context_precision@5`, or the `name` that the eval file gives a grader. A measure
alone is its mean. An unknown function or measure is an error that names what there is.

{rows}

A gate is `passed`, `failed` or `undecided`: where scores are missing, it passes or fails only if it does so whatever they would be.
Failed gates end with exit code 1, undecided ones with 3. With several systems each must pass. `required: true` (0.8) or a number on
a grader is a gate on every case that has it. What a stand-in for a model judged (`lexical`) is undecided without `--allow-stand-in`.
Why intervals: [compare.md](../compare.md).
"""


def config_page() -> str:
    """docs/reference/config.md."""
    rows = "\n".join(
        f"- `{name}` ({' or '.join(_TOML[kind] for kind in flag.setting)}): `{flag.long}`"
        for name, flag in SETTINGS.items()
    )
    return f"""# germane.toml

{MADE}
The nearest `germane.toml`, or `pyproject.toml` with a table `[tool.germane]`, from the working directory upwards. Flags > eval
file > environment > this file > defaults. An unknown setting is an error that names the known ones. Paths are relative to the file.

```toml
judge = "openai:gpt-4o-mini"
measures = ["context_precision@5", "nDCG@10"]
gates = ["lower(nDCG@10)>=0.7"]
ledger = ".germane/ledger.sqlite"
```

Each setting, its value, and the flag of [`germane run`](commands.md#germane-run) that it sets:

{rows}

Environment: `GERMANE_JUDGE`, `GERMANE_LEDGER`, each provider's own key and base URL, `NO_COLOR`. A URL in this file gets no key.
"""


def commands_page() -> str:
    """docs/reference/commands.md: a flag that several commands have stands in full once, in the first of them."""
    without = [f"`{verb}`" for verb in VERBS if all(flag.long != "--json" for flag in _flags_of(verb))]
    parts = [
        "# Commands, flag by flag\n",
        MADE,
        "`germane COMMAND --help` prints this and more. Exit codes of every command: 0 ok, 2 invalid input, 130 interrupted. Arguments and flags",
        "may be mixed; `--flag=value` and `--flag value` are the same; after `...` a flag may be repeated. [germane.toml](config.md) may set",
        f"some flags. `--json` prints one JSON document on stdout; {', '.join(without)} do not have it.\n",
        *(line for verb in VERBS for line in _command(verb)),
    ]
    return "\n".join(parts)


def _flags_of(verb: str) -> list[Flag]:
    """Return the flags of a command, of one of the core without those that add-ons give it."""
    return [flag for flag in flags_of(verb) if flag in FLAGS or verb not in VERBS]


_TOLD_IN = {
    "rank": "rank.md",
    "compare": "compare.md",
    "stages": "diagnose.md",
    "diagnose": "diagnose.md#what-would-help",
    "label": "labels.md#label",
    "audit": "labels.md#audit",
    "labels check": "corpus.md",
    "labels move": "corpus.md",
    "validate": "samples.md#is-the-test-set-worth-its-numbers",
}
"""The pages that say what a command does, beside its flags."""


def _homes() -> dict[str, str]:
    """Return the lines of all flags without the words of single commands, each with the first command that has it, `run` before all."""
    lines: dict[str, str] = {}
    for verb in ("run", *VERBS):
        for flag in _flags_of(verb):
            lines.setdefault(_flag(flag, ""), verb)
    return lines


def _command(verb: str, page: str = "") -> Iterator[str]:
    """Yield the lines on a command: what it does, its own flags, and the names of those that stand with another command."""
    about, *more = inspect.cleandoc(function_of(verb).__doc__ or "").split("\n\n")
    told = _TOLD_IN.get(verb, "" if verb in VERBS else "above")
    if told:  # what a page says of the command is not said again
        more = [part for part in more if "Exit code" in part]
        about = f"{about} [More](../{told})." if told != "above" else about
    text = "\n\n".join([about, *more])
    text = re.sub(r"\s*\bDefault report: the latest in\s+germane-reports\.", "", text).strip()
    yield from (f"## germane {verb}\n", f"{text}\n")
    homes, elsewhere = _homes(), dict[str, list[str]]()
    of_run = {flag.long for flag in _flags_of("run") if not flag.argument}
    for flag in _flags_of(verb):
        if flag.long == "--json":
            continue  # stands above all commands
        home = homes.get(_flag(flag, ""), verb)
        where = f"s in [{home}]({page}#germane-{home.replace(' ', '-')})"
        own = (flag.also or {}).get(verb, "").rstrip(".")
        if not flag.argument and home != verb:
            name = f"`{flag.long}` ({own[0].lower() + own[1:]})" if own else f"`{flag.long}`"
            elsewhere.setdefault(f"A{where}", []).append(name)
        elif flag.help.startswith("With --again: ") and flag.long in of_run:
            elsewhere.setdefault(f"With --again, as in [run]({page}#germane-run)", []).append(
                f"`{flag.long}`"
            )
        else:
            yield _flag(flag, verb)
    for where, names in elsewhere.items():
        yield f"- {where}: {', '.join(names)}."
    yield ""


def _flag(flag: Flag, verb: str) -> str:
    shown = ", ".join(flag.spellings or [flag.spelling])
    value = f" {flag.metavar}" if flag.spellings and flag.kind is not bool else ""
    about = flag.help_for(verb)
    if flag.spellings and "; repeatable" in about:
        value, about = f"{value}...", about.replace("; repeatable", "")
    return f"- `{shown}{value}`: {about}"


PUBLIC: dict[str, tuple[str, ...]] = {
    "Evaluate": ("evaluate", "read_samples"),
    "Report": ("Report",),
    "Compare": ("compare", "Comparison"),
    "Judges": ("judges.LLMJudge", "judges.PanelJudge", "judges.FakeJudge"),
    "Measures": ("Measure",),
    "Tests": ("testing.assert_retrieval",),
}
"""The names that docs/reference/python.md shows, by section."""
RECORDS = ("Sample", "Context", "Call", "Message", "ToolCall", "Evidence", "Judgement", "Score", "Usage")
BRIEF = {
    **dict.fromkeys(
        (
            "compare",
            "judges.LLMJudge",
            "read_samples",
            "testing.assert_retrieval",
            "judges.PanelJudge",
            "judges.FakeJudge",
            "Measure",
        ),
        1,
    ),
    "Comparison": 3,
}
"""Those of which it shows the first paragraphs: how many."""
AS_FLAGS = [
    "against",
    "scale",
    "rubric",
    "corpus",
    "replay",
    "max_unmeasured",
    "allow_stand_in",
    "max_cost",
    "max_calls",
]
"""The arguments of `evaluate` that mean what flags of `germane run` mean."""
METHODS = {
    "Report": "open save scores samples judgements labels places cases worst failed explain slices systems measures name to_json to_pandas to_polars",
    "Measure": "parse",
    "Comparison": "sentences save to_json",
}
"""The methods and properties that it shows."""


def python_page() -> str:
    """docs/reference/python.md: signatures and docstrings of the public names."""
    parts = ["# Python\n", MADE]
    for title, names in PUBLIC.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += [f"### `germane.{name}`\n", *_described(name)]
    parts.append("## Records\n\nImmutable; the fields of a sample: [samples.md](../samples.md).\n")
    for name in RECORDS:
        value = getattr(germane, name)
        listed = ", ".join(
            str(one.replace(annotation=one.empty, kind=one.POSITIONAL_OR_KEYWORD))
            for one in inspect.signature(value).parameters.values()
        )
        told = (
            ""
            if name in {"Sample", "Context", "Call", "Evidence", "Message", "ToolCall"}
            else f": {_first(value)}"
        )
        parts.append(f"- `{name}({listed})`{told}")
    tree = (import_module("germane.errors").__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    parts.append("\n## Errors: `germane.errors`\n")
    for line in inspect.cleandoc(tree).splitlines():
        drawn, name, text = re.fullmatch(r"([│├└─ ]*)(\w+) *(.*)", line).groups()  # type: ignore[union-attr]
        parts.append(f"{' ' * (len(drawn) // 2)}- `{name}`{f': {text}' if text else ''}")
    return "\n".join([*parts, ""])


def _first(value: Any) -> str:
    """Return the first paragraph of a docstring."""
    return _paragraphs(inspect.cleandoc(value.__doc__ or ""), 1)


def _paragraphs(doc: str, number: int) -> str:
    """Return the first paragraphs of a text, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in doc.split("\n\n")[:number])


def _described(name: str) -> Iterator[str]:
    module, _, member = f"germane.{name}".rpartition(".")
    value = getattr(import_module(module), member)
    if name not in METHODS:
        yield f"```py\n{_signature(member, value)}\n```\n"
    doc = inspect.cleandoc(value.__doc__ or "")
    yield f"{_arguments(doc, AS_FLAGS) if name not in BRIEF else _paragraphs(doc, BRIEF[name])}\n"
    for method in METHODS.get(name, "").split():
        found = inspect.getattr_static(value, method)
        call = getattr(found, "__func__", found)
        shown = _signature(method, call, bound=True) if inspect.isfunction(call) else method
        about = re.sub(r"^(Iterate over|Return) ", "", _first(found))
        yield f"- `{shown}`: {about[0].upper()}{about[1:]}"
    if name in METHODS:
        yield ""


def _signature(name: str, value: Any, *, bound: bool = False) -> str:
    """Return a signature, one parameter a line if it has several; `bound`: of a method, on one line."""
    signature = inspect.signature(value)
    parameters, keywords = [], False
    for parameter in list(signature.parameters.values())[bound:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            parameters.append("*")
        keywords = keywords or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        if default.startswith(" = <"):
            default = " = ..."
        parameters.append(f"{star}{parameter.name}: {_annotation(parameter.annotation)}{default}")
    listed = ", ".join(parameters)
    returns = _annotation(signature.return_annotation) if inspect.isfunction(value) else name
    if len(parameters) > 4 and not bound:
        listed = "".join(f"\n    {parameter}," for parameter in parameters) + "\n"
    return f"{name}({listed}) -> {returns}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(germane\.types|typing|pathlib|collections\.abc)\.", "", text)
    return re.sub(r"Annotated\[(\w+), msgspec\.Meta\((?:[^()]|\([^)]*\))*\)\]", r"\1", text)


def _arguments(doc: str, as_flags: Collection[str] = ()) -> str:
    """Return a docstring as Markdown: its sections as lists; of arguments that are flags the names."""
    head, *rest = re.split(r"\n\n(?=(?:Args|Returns|Raises|Attributes):\n)", doc)
    parts = [head]
    for section in rest:
        title, _, body = section.partition(":\n")
        body, _, after = body.partition("\n\n")
        entries = [" ".join(entry.split()) for entry in re.split(r"\n(?= {4}\S)", body)]
        if title == "Returns":
            text = " ".join(entries)
            parts.append(f"Returns {text[0].lower()}{text[1:]}")
        else:
            flags = [entry.partition(":")[0] for entry in entries if entry.partition(":")[0] in as_flags]
            entries = [entry for entry in entries if entry.partition(":")[0] not in flags]
            lines = [re.sub(r"^([\w, ]+):", r"- `\1`:", entry) for entry in entries]
            if flags:
                shown = ", ".join(f"`{name}`" for name in flags)
                lines.append(f"- {shown}: as the flags of [`germane run`](commands.md#germane-run)")
            raised = ", ".join(entry.partition(":")[0].join("``") for entry in entries)
            errors = f"Raises {raised}: see [errors](#errors-germaneerrors)."
            parts.append(errors if title == "Raises" else "\n".join(lines))
        parts += [after] if after else []
    return "\n\n".join(parts)


def addon_page(path: Path) -> str:
    """The page of an add-on: what is written by hand, and below the mark its commands and what its tests hold it to."""
    declared = own()[path.stem]
    parts = [path.read_text("utf-8").partition(MADE)[0] + MADE]
    for verb in declared.verbs:
        parts += ["", *_command(verb, "../reference/commands.md")]
    for verb in VERBS:
        lines = [_flag(flag, verb) for flag in declared.flags if verb in flag.verbs.split(",")]
        parts += ["", f"## Flags of germane {verb}", "", *lines, ""] if lines else []
    if section := getattr(_hook(path.stem), "section", None):
        parts += ["", section()]
    if rows := _equals(DOCS.parent / "tests" / "addons" / path.stem):
        parts += ["", "## What equals which program", "", rows, ""]
    return "\n".join(parts)


def _hook(name: str) -> Any:
    """The script that makes further pages of an add-on; None where it has none."""
    there = (Path(__file__).parent / f"{name}_pages.py").exists()
    if str(DOCS.parent) not in sys.path:
        sys.path.insert(0, str(DOCS.parent))  # run as a file, and not from here
    return import_module(f"scripts.{name}_pages") if there else None


def _equals(folder: Path) -> str:
    """A line for each test in a folder that is marked with `equals`; those of add-ons stand on their own pages."""
    root = DOCS.parent
    locked = dict(
        re.findall(r"^([\w.-]+)==([^ ;\\]+)", (root / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    )
    rows = []
    for path in sorted(folder.rglob("test_*.py")):
        if "addons" in path.relative_to(folder).parts:
            continue
        source = path.read_bytes()
        for test in ast.walk(ast.parse(source)) if b".equals(" in source else ():
            if not isinstance(test, ast.FunctionDef):
                continue
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.equals":
                    program = ast.literal_eval(mark.args[0])
                    told = {word.arg or "": ast.literal_eval(word.value) for word in mark.keywords}
                    version = f"{program} {locked[program]}" if program in locked else program
                    shown = f"`{path.relative_to(root).as_posix()}::{test.name}`"
                    rows.append((version, told["what"], told["within"], told.get("but", ""), shown))
    lines = []
    for version, what, within, but, shown in sorted(rows, key=lambda row: row[0].lower()):
        lines.append(
            f"- {version}: {what} (within {within}{f'; except: {but}' if but else ''}). {shown}".replace(
                "within exact", "exact"
            )
        )
    return "\n".join(lines)


def compatibility_page() -> str:
    """docs/compatibility.md: the formats, and a line for each test that is marked with `equals`."""
    return f"""# What stays, and what equals what

{MADE}
## What stays compatible

Before 1.0 a release may change what is listed here, and CHANGELOG.md says so first; from 1.0 on only a new major version may.

- Names of measures, flags, settings, keys of eval and data files, exit codes, keys of `--json` documents, and the names that [the Python
  reference](reference/python.md) shows. Anything else is internal.
- A name that goes works for two minor versions, with a `DeprecationWarning` (in a command: a line on stderr) that says what
  replaces it.
- New keys may appear in a JSON document at any time. A key that changes its meaning gets a new name.
- **Report folders** are of `schema_version` {SCHEMA_VERSION} (manifest.json). An older one is refused with the commands that carry over what
  was paid and labelled.
- **Ledgers** are of `user_version` {FORMAT}. From this format on one is upgraded where it lies, never refused; a newer one is left as it is.
- **`--json` documents** are of `schema_version` 1; their schemas are in `docs/schema/`.
- **Judges' keys** are the digest of prompt, answer type, model and settings: a prompt that changes is asked anew.

## What equals which program

Each line is a test that compares our values with those of the program, at the version shown. Intended differences: [coming from another tool](addons/coming-from.md).

{_equals(DOCS.parent / "tests")}
"""


_TOML = {str: "text", list: "list of texts", int: "whole number", float: "number"}


def first_sentence(model: type) -> str:
    """The first sentence of a model's docstring."""
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def table_of(
    model: type[BaseModel],
    others: Mapping[str, str],
    *,
    leave: type[BaseModel] | None = None,
    hide: set[str] | None = None,
) -> str:
    """Return a list of a mapping's keys: spellings, values (where not text or anything) and defaults, meanings."""
    meaning = {**WORDS, **meanings(model)}
    left = {*(leave.model_fields if leave else ()), *(hide or ())}
    rows = []
    for name, schema in fields(model).items():
        if name in left:
            continue
        spellings = [
            f"`{key}`"
            for key in (name, *(other for other, meant in others.items() if meant == name and other != name))
        ]
        default, kind = _default(schema), _words(schema)
        choices = re.findall(r"`[^`]+`", kind.removesuffix(" or list"))
        told = len(choices) > 1 and all(choice in meaning[name] for choice in choices)
        if told or kind in {"text", "anything"} or (kind == "true or false" and default):
            kind = ""
        value = ", default ".join(filter(None, [kind, default])) if kind else default and f"default {default}"
        rows.append(f"- {', '.join(spellings)}{f' ({value})' if value else ''}: {meaning[name]}")
    return "\n".join([*rows, ""]) if rows else "It has no keys of its own.\n"


def _default(schema: Schema) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) or isinstance(value, dict | list) else f"`{json.dumps(value)}`"


def _words(schema: Schema) -> str:
    """What may be written, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_words(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "array":
        return "list"
    least = "minimum" in schema and f" from {schema['minimum']:g}"
    least = least or ("exclusiveMinimum" in schema and f" above {schema['exclusiveMinimum']:g}") or ""
    most = f" to {schema['maximum']:g}" if "maximum" in schema else ""
    names = {
        "string": "text",
        "integer": "integer",
        "number": "number",
        "boolean": "true or false",
        "object": "mapping",
    }
    return names.get(kind or "", "anything") + least + most


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a document; of a list, that of one, or of several under `systems`."""
    (one_of,), lines = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    if get_origin(kind) is list:
        several = {"schema_version": {"enum": [1]}, "systems": one_of}
        of_several = {"type": "object", "properties": several, "required": [*several]}
        one_of = {"anyOf": [{**one_of["items"], "required": ["schema_version"]}, of_several]}
    known = {line.__name__: line for line in _kinds(Line)}
    for name, line in lines.items():
        line["description"] = inspect.cleandoc(line.get("description", ""))
        if name in known:
            optional = {f.encode_name for f in structs.fields(known[name]) if UnsetType in get_args(f.type)}
            line["properties"] = {key: of for key, of in line["properties"].items() if key[0] != "_"}
            line["required"] = [key for key in line["properties"] if key not in optional]
            for key in line["required"]:  # a default is Python's: what is written has the field
                line["properties"][key].pop("default", None)
    used, text = dict[str, Any](), json.dumps(one_of)
    while more := [name for name in lines.keys() - used if f'/{name}"' in text]:
        used |= {name: lines[name] for name in more}
        text = json.dumps([one_of, used])
    defs = {name: line for name, line in lines.items() if name in used}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **one_of, "$defs": defs}


def _kinds(kind: type[Line]) -> Iterator[type[Line]]:
    """Iterate over the records that are lines of this kind."""
    for line in kind.__subclasses__():
        yield line
        yield from _kinds(line)


def pages() -> Iterator[tuple[Path, str]]:
    """Every file that is made here."""
    yield SAMPLE_SCHEMA, json.dumps(sample_schema(), indent=2, ensure_ascii=False) + "\n"
    yield SCHEMA, json.dumps(evalfile_schema(), ensure_ascii=False, indent=1) + "\n"
    for name, document in DOCUMENTS.items():
        path = DOCS / "schema" / f"{name}.schema.json"
        yield path, json.dumps(schema_of(document), ensure_ascii=False, indent=1) + "\n"
    yield DOCS / "reference" / "evalfile.md", evalfile_page()
    yield DOCS / "reference" / "targets.md", targets_page()
    yield DOCS / "reference" / "gates.md", gates_page()
    yield DOCS / "reference" / "config.md", config_page()
    yield DOCS / "reference" / "commands.md", commands_page()
    yield DOCS / "reference" / "python.md", python_page()
    yield DOCS / "compatibility.md", compatibility_page()
    for name in own():
        yield DOCS / "addons" / f"{name}.md", addon_page(DOCS / "addons" / f"{name}.md")
        if hook := _hook(name):
            yield from hook.files()


if __name__ == "__main__":
    for path, text in pages():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
