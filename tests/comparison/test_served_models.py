"""Reports whose verdicts came from other models under one judge's name."""

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from germane.types import Json
from tests.command import invoke
from tests.server import Act, ModelServer


def serve(model: str) -> Act:
    answer = {"role": "assistant", "content": '{"reasoning": "r", "grade": 3}'}
    choices: list[Json] = [{"index": 0, "message": answer, "finish_reason": "stop"}]
    return Act(body=json.dumps({"object": "chat.completion", "model": model, "choices": choices}))


class Lab:
    """A folder of reports that one endpoint judged."""

    def __init__(self, folder: Path, server: ModelServer, acts: Callable[[Iterator[Act]], None]) -> None:
        self.folder, self.server, self.serve = folder, server, acts

    def run(self, name: str, models: tuple[str, ...], *more: object) -> tuple[Path, int, str]:
        data, report = self.folder / f"{name}.jsonl", self.folder / name
        rows = [{"id": f"q{k}", "query": f"q{k}", "contexts": [f"text {k}"]} for k in range(10)]
        data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        self.serve(cycle([serve(model) for model in models]))
        ran = invoke(
            *("run", data, "-m", "context_precision", "--judge", "openai:m", "--base-url", self.server.url),
            *("--no-cache", "-o", report, *more),
        )
        return report, ran.code, " ".join((ran.out + ran.err).split())


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    acts: list[Iterator[Act]] = []
    with ModelServer(lambda asked: next(acts[-1])) as server:
        yield Lab(tmp_path, server, acts.append)


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (("m-2024",), ("m-2025",), True),
        (("m-2024", "m-2025"), ("m-2025",), False),
        (("m-2025",), ("m-2025",), False),
        (("m",), ("m-2025",), False),
        (("",), ("m-2025",), False),
    ],
)
def test_models_under_one_name(
    lab: Lab, before: tuple[str, ...], after: tuple[str, ...], refused: bool
) -> None:
    """Known models of which none is shared are two judges."""
    a, b = lab.run("a", before)[0], lab.run("b", after)[0]
    ran = invoke("compare", a, b)
    assert (ran.code == 2) == refused
    assert ("m-2024" in ran.err and "m-2025" in ran.err and "--across-judges" in ran.err) == refused
    assert invoke("compare", a, b, "--across-judges").code == 0


def test_no_regression_is_decided_across_models(lab: Lab) -> None:
    """Undecided, exit 3, where another model answered; passed where it is the same."""
    gate = ("--baseline", lab.run("a", ("m-2024",))[0], "--fail-on-regression")
    _, code, text = lab.run("b", ("m-2025",), *gate)
    assert code == 3
    assert "another model answered" in text
    assert lab.run("c", ("m-2024",), *gate)[1] == 0
