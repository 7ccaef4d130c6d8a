"""The graders that an eval file or a case lists: measures, graders, statements of a rubric, and included templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, ValidationInfo

from germane.errors import InputError
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


def included_nodes(value: Any, info: ValidationInfo) -> list[Node]:
    """Return the nodes of a list of graders, with the assertions of included files in their places.

    `- include: NAME` names .agentv/templates/NAME.yaml, in the eval file's folder or the nearest above it. Raises InputError for
    an include in an included file.
    """
    result: list[Node] = []
    for node in grader_nodes(value):
        pairs = node.pairs or {}
        result += _template(node, folder_of(info)) if pairs.keys() == {"include"} else [node]
    return result


def _template(node: Node, folder: Path) -> list[Node]:
    """Return the assertions of the file that an include names."""
    named, root = (node.pairs or {})["include"].text or "", repository_root(folder)
    name = f".agentv/templates/{named}.yaml"
    folders = (at for at in (folder, *folder.parents) if at.is_relative_to(root))
    file = next((at / name for at in folders if (at / name).is_file()), None)
    if file is None or Path(named).name != named:
        raise node.fault(f"no {name} to include, in {folder} or above", "check the name")
    listed = (parse_yaml(read_text(file), str(file)).pairs or {}).get("assertions")
    if listed is None or not listed.items:
        raise node.fault(f"{file} holds no assertions", "write assertions: [...] in it")
    if any("include" in (item.pairs or {}) for item in listed.items):
        raise node.fault(f"{file} includes another file", "include that file in the eval file")
    return listed.items


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
