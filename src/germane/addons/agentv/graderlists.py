"""The graders that an eval file or a case lists: measures, graders, statements of a rubric, and included templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, ValidationInfo

from germane.clean import fold
from germane.errors import InputError, SourceLocation
from germane.evalfiles import WRITTEN, GraderSpec, by_name, grader_nodes, spec_of, specs_of
from germane.samples.files import read_text, repository_root
from germane.types import freeze
from germane.yamltext import Node, YamlModel, folder_of, node_of, parse_yaml


def _measures(value: Any, info: ValidationInfo) -> tuple[GraderSpec, ...]:
    return specs_of(included_nodes(value, info))


def _rubric(nodes: Sequence[Node], weight: int = 1) -> GraderSpec:
    """Return statements and items of a rubric as one grader, asked of a model."""
    location = nodes[0].location
    pairs = node_of({"type": "rubrics", "name": "rubrics", "weight": weight}, location).pairs or {}
    pairs["rubrics"] = Node(location, items=list(nodes))
    node = Node(location, pairs=pairs, keys=dict.fromkeys(pairs, location))
    return GraderSpec(name="rubrics", node=node, spec=freeze(node.json()))


def _rubrics(value: Any, info: ValidationInfo) -> tuple[GraderSpec, ...]:
    nodes = included_nodes(value, info)
    return (_rubric(nodes),) if nodes else ()


def assertions_in(value: Any, info: ValidationInfo) -> tuple[GraderSpec, ...]:
    """Return the assertions of the newer generation's list, in which a text is not a measure's name but something that must be true.

    All of them are one rubric in place of the first, which weighs as much as they are many.
    """
    nodes = included_nodes(value, info)
    stated = [node for node in nodes if node.pairs is None]
    kept = (node for node in nodes if node.pairs is not None or node is stated[0])
    return tuple(_rubric(stated, len(stated)) if node.pairs is None else spec_of(node) for node in kept)


_MEMBERS = ("evaluators", "assertions", "assert", "graders", "members")


def included_nodes(value: Any, info: ValidationInfo) -> list[Node]:
    """Return the nodes of a list of graders, with those of the files that it includes in their places."""
    return _included(grader_nodes(value), folder_of(info))


def _included(nodes: Iterable[Node], folder: Path, above: tuple[Path, ...] = ()) -> list[Node]:
    """Replace `- include: NAME` by the assertions of .agentv/templates/NAME.yaml, or of the file at that path."""
    result: list[Node] = []
    for node in nodes:
        pairs = node.pairs or {}
        name = pairs["include"].text if pairs.keys() == {"include"} else None
        if name:
            file = _template(name, folder, above, node.location)
            listed = (parse_yaml(read_text(file), str(file)).pairs or {}).get("assertions")
            if listed is None or listed.items is None:
                raise node.fault(f"{file} holds no assertions", "write assertions: [...] in it")
            result += _included(listed.items, folder, (*above, file))
        else:
            members = {
                key: replace(inner, items=_included(inner.items, folder, above))
                for key, inner in pairs.items()
                if fold(key) in _MEMBERS and inner.items is not None
            }
            result.append(replace(node, pairs={**pairs, **members}) if members else node)
    return result


def _template(name: str, folder: Path, above: tuple[Path, ...], where: SourceLocation) -> Path:
    """Return the file that an `include` names: next to the including file, in the folder, or in one above it up to the root."""
    bare = not name.startswith(".") and not any(sign in name for sign in "/\\")
    names = [f".agentv/templates/{name}{suffix}" for suffix in (".yaml", ".yml")] if bare else [name]
    root = repository_root(folder)
    folders = [
        *(file.parent for file in above[-1:]),
        *(p for p in (folder, *folder.parents) if p.is_relative_to(root)),
    ]
    path = next((file for at in folders for spelt in names if (file := at / spelt).is_file()), None)
    if path is None:
        problem = f"no {names[0]} to include, in {folder} or above"
        raise InputError(problem, fix="check the name", place=where)
    if path in above:
        chain = " -> ".join(map(str, (*above, path)))
        raise InputError(f"the included files go round: {chain}", fix="include each file once", place=where)
    return path


Graders = Annotated[tuple[GraderSpec, ...], PlainValidator(_measures, json_schema_input_type=WRITTEN)]
Assertions = Annotated[tuple[GraderSpec, ...], PlainValidator(assertions_in, json_schema_input_type=WRITTEN)]
Rubrics = Annotated[tuple[GraderSpec, ...], PlainValidator(_rubrics, json_schema_input_type=WRITTEN)]


class GraderLists(YamlModel):
    """The graders that a mapping lists, under any of the names for it.

    Attributes:
        measures: Measures by name (several in one text too), or graders; they apply to every case and all data.
        evaluators: AgentV 2's name for `measures`.
        assertions: AgentV 4's name for `measures`; a text is a statement that must be true of the answer.
    """

    aliases: ClassVar = {"measures": ("metrics",), "assertions": ("assert",)}

    measures: Graders = ()
    evaluators: Graders = ()
    assertions: Assertions = ()

    def graders(self, faults: list[InputError]) -> tuple[GraderSpec, ...]:
        """Return the graders of all these lists, under names that differ; what is wrong is added to the faults."""
        return by_name((*self.measures, *self.evaluators, *self.assertions), faults)
