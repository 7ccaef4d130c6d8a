"""The graders that an eval file or a case lists: measures, graders, and statements of a rubric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator

from germane.errors import InputError
from germane.evalfiles import WRITTEN, GraderSpec, by_name, grader_nodes, spec_of, specs_of
from germane.types import freeze
from germane.yamltext import Node, YamlModel, node_of


def _rubric(nodes: Sequence[Node], weight: int = 1) -> GraderSpec:
    """Return statements and items of a rubric as one grader, asked of a model."""
    location = nodes[0].location
    pairs = node_of({"type": "rubrics", "name": "rubrics", "weight": weight}, location).pairs or {}
    pairs["rubrics"] = Node(location, items=list(nodes))
    node = Node(location, pairs=pairs, keys=dict.fromkeys(pairs, location))
    return GraderSpec(name="rubrics", node=node, spec=freeze(node.json()))


def _rubrics(value: Any) -> tuple[GraderSpec, ...]:
    nodes = grader_nodes(value)
    return (_rubric(nodes),) if nodes else ()


def assertions_in(value: Any) -> tuple[GraderSpec, ...]:
    """Return the assertions of AgentV 4: its texts, which must be true of the answer, are one rubric."""
    nodes = grader_nodes(value)
    stated = [node for node in nodes if node.pairs is None]
    kept = (node for node in nodes if node.pairs is not None or node is stated[0])
    return tuple(_rubric(stated, len(stated)) if node.pairs is None else spec_of(node) for node in kept)


Graders = Annotated[
    tuple[GraderSpec, ...],
    PlainValidator(lambda value: specs_of(grader_nodes(value)), json_schema_input_type=WRITTEN),
]
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
