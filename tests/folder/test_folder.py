"""The report folder: one writer, rows that are complete or not there, and files that were not changed since."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.folder.files import OWN, earlier_judgements, write_manifest
from germane.folder.tables import BlockRows, GraderSet, StoredTables, merge
from germane.folder.writer import FolderWriter
from germane.reports.report import Report
from germane.tables.judgements import JudgementTable
from germane.tables.labels import Label
from germane.tables.scores import ScoreTable
from germane.types import Judgement, Sample, Score
from tests.command import invoke

ROWS = [
    {"id": f"q{n}", "query": "a", "contexts": [{"text": f"a {n} {k}"} for k in range(3)]} for n in range(4)
]


def saved(folder: Path) -> Report:
    return evaluate(ROWS, "context_precision@3", judge="lexical").save(folder, force=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def judgement(n: int) -> Judgement:
    return Judgement(key=f"{n:032x}", kind="relevance", judge="fake", answer={"grade": 1})


def killed(path: Path, *numbers: int) -> None:
    """BlockRows that were written and never finished."""
    folder = FolderWriter(path).start()
    folder.add(BlockRows(judgements=JudgementTable(map(judgement, numbers))))
    folder.close()


def test_a_report_stays_whole_while_another_is_written_over_it(tmp_path: Path) -> None:
    """Until the new rows are finished the earlier report reads as it did."""
    saved(tmp_path)
    before = contents(tmp_path)
    killed(tmp_path, 1)
    assert {name: contents(tmp_path)[name] for name in before} == before
    assert len(list(Report.open(tmp_path).judgements())) == 12


def test_a_report_is_saved_onto_itself(tmp_path: Path) -> None:
    """Read row by row from the folder that it is written to, it comes out the same, and nothing is left over."""
    saved(tmp_path)
    before = contents(tmp_path)
    Report.open(tmp_path).save(tmp_path)
    assert contents(tmp_path) == before


def test_judgements_of_killed_runs_are_found(tmp_path: Path) -> None:
    """Of however many runs were killed one after the other, oldest first; a line that was cut is passed over."""
    saved(tmp_path)
    finished = [row.key for row in left(tmp_path)]
    assert len(finished) == 12
    killed(tmp_path, 1, 2)
    with (tmp_path / "judgements.jsonl.part").open("ab") as file:
        file.write(b'{"key": "00')
    killed(tmp_path, 3)
    killed(tmp_path, 4)
    assert left(tmp_path)[12:] == [judgement(n) for n in (1, 2, 3, 4)]
    saved(tmp_path)
    assert [row.key for row in left(tmp_path)] == finished


def left(folder: Path) -> list[Judgement]:
    return list(earlier_judgements(FolderWriter(folder).earlier()))


def test_a_folder_where_nothing_ran_has_no_judgements(tmp_path: Path) -> None:
    """No file is no error."""
    assert FolderWriter(tmp_path).earlier() == []


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    """In this process or another; when the first is killed the folder is free."""
    code = "import sys, time; from germane.folder.writer import FolderWriter; FolderWriter(sys.argv[1]).lock(); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(InputError, match="another process is writing to"):
            saved(tmp_path)
        other.kill()
        other.wait()
    mine = FolderWriter(tmp_path).lock()
    with pytest.raises(InputError, match="another process is writing to"):
        FolderWriter(tmp_path).lock()
    mine.close()
    saved(tmp_path)
    assert sorted(contents(tmp_path)) == sorted(OWN)


def test_another_evaluations_report_is_not_overwritten(tmp_path: Path) -> None:
    """Unless that is asked for; saving onto itself is no other evaluation."""
    saved(tmp_path)
    before = contents(tmp_path)
    other = evaluate(ROWS[:1], "context_precision@3", judge="lexical")
    with pytest.raises(InputError, match=r"already holds a report.*force=True"):
        other.save(tmp_path)
    assert contents(tmp_path) == before
    other.save(tmp_path, force=True)
    assert len(list(Report.open(tmp_path).samples())) == 1


def test_an_unfinished_evaluation_is_to_be_continued(tmp_path: Path) -> None:
    """Who starts it again is told how to keep the answers that it has."""
    report, data = tmp_path / "report", tmp_path / "data.jsonl"
    data.write_text(json.dumps({"query": "q", "contexts": [{"id": "d"}], "qrels": {"d": 1}}))
    saved(report)
    write_manifest(report, {}, "interrupted")
    ran = invoke("run", data, "-m", "RR", "-o", report)
    assert ran.code == 2
    assert "holds an unfinished evaluation" in ran.err
    assert f"germane run --resume {report}" in ran.err


@pytest.mark.parametrize(
    "name", ["samples.jsonl", "scores.jsonl.part", "manifest.json", "judgements.jsonl.earlier"]
)
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, name: str) -> None:
    """A link among the folder's files is replaced, or an error where it would be written through."""
    folder, outside = tmp_path / "r", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("precious")
    (folder / name).symlink_to(outside)
    if name.endswith(".part"):
        with pytest.raises(OSError, match="symbolic links"):
            saved(folder)
    else:
        saved(folder)
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", ["samples.jsonl", "places.jsonl", "judgements.jsonl", "scores.jsonl"])
def test_a_changed_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    """An edited score is not another result; neither is a file that is gone."""
    saved(tmp_path)
    with (tmp_path / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(InputError, match=f"{name} was changed after the report was written"):
        Report.open(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        Report.open(tmp_path)


def test_labels_may_be_appended(tmp_path: Path) -> None:
    """They are no part of what is checked, and those that people gave survive the next evaluation in the folder."""
    saved(tmp_path)
    label = Label(item="i", kind="relevance", answer=2, scale="graded", who="ann", queue="random")
    StoredTables(tmp_path).append_labels([label])
    report = Report.open(tmp_path)
    assert list(report.labels()) == [label]
    report.save(tmp_path)
    saved(tmp_path)
    assert list(Report.open(tmp_path).labels()) == [label]


def test_the_labels_of_some_items_are_read_alone(tmp_path: Path) -> None:
    """Those of the samples and those that people gave later, whatever is between them; of other items none."""
    rows = [
        {
            "id": f"q{n}",
            "query": f"q {n}",
            "contexts": [{"text": f"text {n} {k}", "grade": k} for k in range(3)],
        }
        for n in range(4)
    ]
    report = evaluate(rows, "context_precision@3", judge="labels").save(tmp_path / "r")
    items = sorted({row.item for row in report.places()})[::5]
    later = [Label(item, "relevance", 1, "graded", who="ann", queue="random") for item in items[:2]]
    other = Label("other", "relevance", 1, "graded", who="ann", queue="random")
    StoredTables(tmp_path / "r").append_labels([*later, other])
    report = Report.open(tmp_path / "r")
    labels = [label for label in report.tables.labels if label.item in items]
    assert len(labels) == len(items) + len(later)
    found = report.tables.candidates("labels", "item", items)
    assert sorted(repr(label) for label in found if label.item in items) == sorted(map(repr, labels))


def test_labels_are_known_while_rows_are_written(tmp_path: Path) -> None:
    """Those of the samples, and those that people gave in the folder before: the summary counts both."""
    StoredTables(tmp_path).append_labels(
        [Label(item="i", kind="relevance", scale="graded", answer=2, who="ann", queue="random")]
    )
    folder = FolderWriter(tmp_path).start()
    folder.add(BlockRows(labels=[Label(item="j", kind="relevance", scale="graded", answer=3)]))
    folder.flush()
    assert [label.item for label in folder.tables.labels] == ["j", "i"]
    folder.close()


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"schema_version": 1, "germane": "0.1.0"}, "format 1, .* keep the paid answers"),
        ({"judge": None}, "format None, .* keep the paid answers"),
        ({"schema_version": 99}, "format 99, .* update germane"),
        ([1], "the manifest must be one JSON object"),
    ],
)
def test_a_report_of_another_format_is_refused(tmp_path: Path, manifest: object, message: str) -> None:
    """With its version and the way out."""
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=message):
        Report.open(tmp_path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda text: text[: len(text) // 2],
            r"manifest.json:\d+:\d+: .*; restore the file, or run the evaluation again",
        ),
        (lambda text: "[" * 100_000, "nested more than"),
        (lambda text: text.replace('"created": "', '"created": "\udcff'), "the byte 0xff is not UTF-8"),
        (
            lambda text: json.dumps({**json.loads(text), "graders": 5}),
            r"Expected `array`, got `int` - at `\$.graders`",
        ),
        (lambda text: json.dumps({**json.loads(text), "judge": []}), r"got `array` - at `\$.judge`"),
        (lambda text: json.dumps({**json.loads(text), "files": None}), r"got `null` - at `\$.files`"),
    ],
)
def test_a_damaged_manifest_is_an_error_with_its_place(
    tmp_path: Path, edit: Callable[[str], str], message: str
) -> None:
    """Cut off, of another encoding, or with an entry of another type."""
    saved(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_bytes(edit(file.read_text()).encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message):
        Report.open(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"item": "i", "kind": "rele', "labels.jsonl:2: this line is damaged"),
        (b"[" * 100_000, "labels.jsonl:2: this line is damaged"),
        (b'"\xff"', "labels.jsonl:2: this line is damaged"),
        (b"5", "labels.jsonl:2: this line is damaged"),
        (
            b'{"item": "i", "kind": "relevance", "scale": "graded"}',
            "labels.jsonl:2: this label cannot be used",
        ),
        (
            b'{"item": "i", "kind": "relevance", "scale": "graded", "answer": 1, "who": 5}',
            "labels.jsonl:2: this label cannot be used",
        ),
        (
            b'{"item": "i", "kind": "relevance", "scale": "graded", "answer": %s}' % (b"9" * 400),
            "labels.jsonl:2: the answer of this label is not on the scale",
        ),
        (
            b'{"item": "i", "kind": "relevance", "scale": "graded", "answer": 1e308}',
            "labels.jsonl:2: the answer of this label is not on the scale",
        ),
        (
            b'{"item": "i", "kind": "relevance", "scale": "graded", "answer": 1, "design": 3}',
            "labels.jsonl:2: this label cannot be used",
        ),
    ],
)
def test_a_damaged_label_is_an_error_with_its_line(tmp_path: Path, line: bytes, message: str) -> None:
    """labels.jsonl is appended to by people and programs; what is none is named, however it is read."""
    saved(tmp_path)
    label = Label(item="i", kind="relevance", answer=2, scale="graded", who="ann", queue="random")
    StoredTables(tmp_path).append_labels([label])
    with (tmp_path / "labels.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError, match=message):
        list(Report.open(tmp_path).labels())
    with pytest.raises(InputError, match=message):
        list(StoredTables.open(tmp_path).people())


def test_what_is_not_finished_is_no_report(tmp_path: Path) -> None:
    """The message says how it is continued."""
    write_manifest(tmp_path, {}, "running")
    with pytest.raises(InputError, match="germane run --resume"):
        Report.open(tmp_path)


def test_parts_are_written_as_one(tmp_path: Path) -> None:
    """A judgement of two parts is written once, and each sample keeps its graders, whatever the parts."""
    graders: list[GraderSet] = [[{"measure": name, "name": name, "options": {}}] for name in ("RR", "AP")]
    parts = [
        BlockRows(
            samples=[Sample(id=f"q{number}", query="q")],
            judgements=JudgementTable([judgement(1), judgement(number + 2)]),
            scores=ScoreTable([Score(sample=f"q{number}", measure="RR", type="RR", value=0.5)]),
            graders=[graders[number % 2]],
        )
        for number in range(4)
    ]
    for name, written in (("cut", parts), ("whole", [merge(parts)])):
        folder = FolderWriter(tmp_path / name).start()
        for part in written:
            folder.add(part)
        folder.finish({"graders": list(folder.tables.graders)})
        folder.close()
    files = [contents(tmp_path / name) for name in ("cut", "whole")]
    assert files[0] == files[1]
    read = StoredTables.open(tmp_path / "cut")
    assert [one.key for one in read.judgements] == [judgement(n).key for n in (1, 2, 3, 4, 5)]
    assert read.grader_numbers() == {("q1", "", 0): 1, ("q3", "", 0): 1}
    assert [sample.id for sample in read.samples] == ["q0", "q1", "q2", "q3"]
    assert read.asked == merge(parts).asked


def test_the_manifest_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """Twenty times the samples make no longer manifest."""
    sizes = []
    for count in (5, 100):
        rows = [{"id": f"q{n}", "query": "a", "contexts": ["a b"]} for n in range(count)]
        evaluate(rows, "context_precision@3 RR", judge="lexical").save(tmp_path / str(count))
        sizes.append((tmp_path / str(count) / "manifest.json").stat().st_size)
    assert sizes[1] < sizes[0] + 50


KILLED_AT = """
import os, pathlib, shutil, signal, sys
from germane import Report
old, new, target = map(pathlib.Path, sys.argv[1:])
replace = pathlib.Path.replace
for n in range(1, 9):
    shutil.copytree(old, target / str(n))
    if (child := os.fork()) == 0:
        left = iter(range(n, 0, -1))
        def counted(path, to):
            if next(left, 0) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return replace(path, to)
        pathlib.Path.replace = counted
        Report.open(new).save(target / str(n), force=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process is killed")
def test_a_report_whose_writer_is_killed_at_its_end_is_completed(tmp_path: Path) -> None:
    """Whichever file takes its place at that moment; labels that people gave before stay."""
    label = Label(item="i", kind="relevance", answer=2, scale="graded", who="ann", queue="random")
    saved(tmp_path / "old")
    StoredTables(tmp_path / "old").append_labels([label])
    evaluate(ROWS[:1], "context_precision@2", judge="lexical").save(tmp_path / "new")
    folders = [str(tmp_path / name) for name in ("old", "new", "killed")]
    subprocess.run([sys.executable, "-c", KILLED_AT, *folders], check=True)
    for n in range(1, 9):
        folder = tmp_path / "killed" / str(n)
        report = Report.open(folder)
        assert [score.measure for score in report.scores()] == ["context_precision@2"]
        assert [label.who for label in report.labels()] == ["ann"]
        assert not list(folder.glob("*.part"))
