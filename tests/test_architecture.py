"""The house plan holds: imports point one way, no module is in a cycle, folders stay small and names are told once."""

import ast
import collections
import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import germane

SOURCE = Path(germane.__file__).parent

STEPS = (
    {"lazy", "errors", "encoding", "clean", "version"},
    {"show"},
    {"addons"},
    {"flags"},
    {"types"},
    {"samples"},
    {"yamltext"},
    {"evalfiles"},
    {"questions"},
    {"tables"},
    {"places"},
    {"folder"},
    {"ledger"},
    {"judges"},
    {"statistics", "measures", "judging"},
    {"results"},
    {"reports"},
    {"comparison", "diagnosis"},
    {"graders", "labelling", "targets"},
    {"evaluation"},
    {"integrations"},
    {"cli"},
)
"""Each part imports only parts of earlier steps, however far, and itself. `testing` is for tests and may import all."""

STEP = {part: number for number, parts in enumerate(STEPS) for part in parts}
MOST_FILES = 12
DEEPEST = 16


@functools.cache
def modules() -> Mapping[str, Path]:
    """Every module by its dotted name."""
    return {
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted(SOURCE.rglob("*.py"))
    }


def imported(name: str) -> Iterator[str]:
    """The germane modules that one imports, those inside functions and under TYPE_CHECKING included."""
    known = modules()
    for node in ast.walk(ast.parse(known[name].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


@functools.cache
def graph() -> Mapping[str, frozenset[str]]:
    """Which modules each module imports."""
    return {name: frozenset(imported(name)) - {name} for name in modules()}


def in_addon(module: str) -> bool:
    return module.startswith("germane.addons.")


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_folder_has_its_step() -> None:
    """A new folder is given a place in the order."""
    folders = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    assert folders <= STEP.keys()


@pytest.mark.parametrize("part", sorted(STEP))
def test_imports_point_one_way(part: str) -> None:
    """No part imports a later step, or another part of its own step."""
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        if part_of(module) == part and not in_addon(module)
        for other in others
        if part_of(other) in {*STEP, "testing"} - {part}
        if STEP.get(part_of(other), len(STEPS)) >= STEP[part]
    ]
    assert not wrong


def test_the_core_imports_no_addon() -> None:
    """Neither by a statement nor by a string: with the folder of an add-on deleted the core works."""
    wrong = [
        f"{name} names {text}"
        for name, file in modules().items()
        if not in_addon(name)
        for text in (
            *filter(in_addon, graph()[name]),
            *(
                node.value
                for node in ast.walk(ast.parse(file.read_text("utf-8")))
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.match(r"germane\.addons\.\w+", node.value)
            ),
        )
    ]
    assert not wrong


def addon_of(module: str) -> str:
    return module.split(".")[2]


def test_addons_import_public_names_alone() -> None:
    """An add-on takes from the core what stands in `__all__` of its packages and modules, and nothing of another add-on."""
    wrong = []
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))) if in_addon(name) else ():
            if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != "germane":
                continue
            source = str(node.module)
            if in_addon(source):
                wrong += [] if addon_of(source) == addon_of(name) else [f"{name} imports {source}"]
                continue
            public = getattr(importlib.import_module(source), "__all__", ())
            wrong += [
                f"{name}: {source}.{alias.name} is not public"
                for alias in node.names
                if alias.name not in public
            ]
    assert not wrong


def test_few_names_are_public() -> None:
    """At most 25 of a package or module beside the measures; germane itself has 30 at most."""
    many = {}
    for name in filter(lambda name: not in_addon(name), modules()):
        if "__all__" in modules()[name].read_text("utf-8"):
            module = importlib.import_module(name)
            own = [one for one in module.__all__ if not isinstance(getattr(module, one), germane.Measure)]
            many[name] = len(own)
    assert {name: count for name, count in many.items() if count > (30 if name == "germane" else 25)} == {}


def depth_of(module: str, above: tuple[str, ...], known: dict[str, int]) -> int:
    """How many modules the longest chain of imports from here holds; a cycle fails."""
    assert module not in above, f"an import cycle: {' -> '.join([*above[above.index(module) :], module])}"
    if module not in known:
        others = (depth_of(other, (*above, module), known) for other in sorted(graph()[module]))
        known[module] = 1 + max(others, default=0)
    return known[module]


def test_there_is_no_import_cycle_and_chains_are_short() -> None:
    """Imports inside functions count too."""
    known: dict[str, int] = {}
    deepest = max(graph(), key=lambda module: depth_of(module, (), known))
    assert known[deepest] <= DEEPEST, deepest


def test_folders_are_small() -> None:
    """At most twelve files per folder; the command line has one file per subject of its verbs."""
    files = collections.Counter(
        str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if file.name != "__init__.py"
    )
    assert {folder: count for folder, count in files.items() if folder != "cli" and count > MOST_FILES} == {}


def test_no_class_name_is_used_twice() -> None:
    """A class name means one thing; integrations and add-ons use the words of other tools."""
    names = collections.Counter(
        node.name
        for module, file in modules().items()
        if part_of(module) not in {"integrations", "addons"}
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_measures_never_see_a_judge() -> None:
    """Of judging, measures know the questions and how to ask; judges know nothing of measures."""
    seen = {
        (part_of(module), part_of(other))
        for module, others in graph().items()
        for other in others
        if part_of(module) in {"measures", "judges"}
    }
    assert not seen & {
        ("measures", "judges"),
        ("measures", "judging"),
        ("measures", "ledger"),
        ("judges", "measures"),
    }
