"""Labels from and to files: the page's JSON lines, CSV, qrels."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from germane.errors import InputError
from germane.labelling.files import LabelFile, export_labels, import_labels
from germane.labelling.queue import LabellingSession, LabelQueue, label_tasks
from germane.reports.report import Report
from germane.tables.labels import TAKEN_BACK, UNSURE, dump_label
from germane.types import freeze
from tests.command import invoke
from tests.labelling.made import keep, report_at


def made(tmp_path: Path, name: str = "r") -> Report:
    return report_at(tmp_path / name, "context_relevance")


OTHER = "1 row does not name a passage or claim of this report"


def test_rows_of_the_page_are_imported_by_item(tmp_path: Path) -> None:
    """What the page saves is what labels.jsonl holds; without a design it is an import, whatever it calls itself."""
    report = made(tmp_path)
    task = label_tasks(report)[0]
    row = {"item": task.item, "kind": "relevance", "answer": 2, "scale": "graded", "who": "eve", "queue": "random",
           "design": None, "blind": False, "at": "2026-01-01T00:00:00+00:00", "sample": task.sample}  # fmt: skip
    lines = [row, {**row, "item": "0" * 32}, {**row, "answer": True, "scale": "binary", "who": "kim"}]
    path = tmp_path / "page.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found, notes = import_labels(path, report, "ann", "told")
    scale = "1 label does not count: a newer label of the passage is on another scale"
    assert [note.partition(" (")[0] for note in notes] == [OTHER, scale]
    assert [(one.who, one.answer, one.queue, one.blind) for one in found] == [
        ("eve", 2, "import", False),
        ("kim", True, "import", False),
    ]
    assert found[0].guideline == "told"


def test_a_colleague_s_random_labels_keep_their_design(tmp_path: Path) -> None:
    """Exported from one copy of the report and imported into another they correct it just the same."""
    here, there = made(tmp_path, "a"), made(tmp_path, "b")
    session = LabellingSession(LabelQueue(tasks=label_tasks(here), budget=20), "ann", keep(here))
    while session.next is not None:
        session.answer(1)
    assert export_labels(tmp_path / "out.jsonl", Report.open(tmp_path / "a")) == (20, 0)
    found, _ = import_labels(tmp_path / "out.jsonl", there, "ben")
    assert list(map(dump_label, found)) == list(map(dump_label, Report.open(tmp_path / "a").labels()))


@pytest.mark.parametrize("name", ["labels.csv", "gold.qrels"])
def test_documents_are_found_by_sample_and_id(tmp_path: Path, name: str) -> None:
    """In CSV and qrels; a document is the same item wherever it stands."""
    report = made(tmp_path)
    path = tmp_path / name
    if name.endswith("csv"):
        path.write_text("sample,id,grade,relevant,who\nq1,d1.2,3,,eve\nq2,d2.0,,no,\nq9,none,1,,\n", "utf-8")
    else:
        path.write_text("q1 0 d1.2 3\nq2 0 d2.0 0\nq9 0 none 1\n", "utf-8")
    (first, second), notes = import_labels(path, report, "ann")
    assert notes == [f"{OTHER} (the first: {path}:{4 if name.endswith('csv') else 3})"]
    task = next(one for one in label_tasks(report) if one.item == first.item)
    assert (task.sample, " 1.2 " in task.passages[0]) == ("q1", True)
    assert first.answer == 3
    assert not second.answer
    assert {first.who, second.who} == ({"eve", "ann"} if name.endswith("csv") else {"ann"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "sample;id;grade\nq1;d1.2;2,0\nq2;d2.0;\n"),
        ("a.csv", "sample,id,grade\nq1,d1.2,2.0\nq2,d2.0,NA\n"),
        (
            "a.jsonl",
            '{"sample": "q1", "id": "d1.2", "grade": 2.0}\n{"sample": "q2", "id": "d2.0", "grade": null}\n',
        ),
        (
            "a.json",
            '[{"sample": "q1", "id": "d1.2", "grade": 2}, {"sample": "q2", "id": "d2.0", "grade": null}]',
        ),
    ],
)
def test_rows_without_a_grade_are_not_filled_in_yet(tmp_path: Path, name: str, text: str) -> None:
    """Whatever the format and the separator; they are counted, and the others are read."""
    report = made(tmp_path)
    (tmp_path / name).write_text(text, "utf-8")
    found, notes = import_labels(tmp_path / name, report, "ann")
    assert ([label.answer for label in found], notes) == ([2], ["1 row has no answer yet"])


def test_a_correction_that_changes_nothing_is_counted(tmp_path: Path) -> None:
    """It is older than the stored answer of the same person, or says the same; of one time the later row counts."""
    head, report = "sample,id,grade,who,at\n", made(tmp_path)
    (tmp_path / "a.csv").write_text(f"{head}q1,d1.2,3,ann,2026-11-28T12:00:00.500+02:00\n", "utf-8")
    keep(report)(*import_labels(tmp_path / "a.csv", report, "ann")[0])
    again, unchanged = Report.open(tmp_path / "r"), {}
    for at in ("2026-11-28 10:00", "2026-11-28T11:00", "2026-11-28T10:00:00.500", ""):
        for grade in (0, 3):
            (tmp_path / "b.csv").write_text(f"{head}q1,d1.2,{grade},ann,{at}\n", "utf-8")
            unchanged[at, grade] = len(import_labels(tmp_path / "b.csv", again, "ann")[1])
    assert list(unchanged.values()) == [1, 1, 0, 1, 0, 1, 0, 1]
    done = invoke("label", tmp_path / "r", "--import", tmp_path / "b.csv")
    assert "0 labels added" in done.err + done.out
    assert "1 label is already there" in " ".join((done.err + done.out).split())
    (tmp_path / "b.csv").write_text(f"{head}q1,d1.2,3,ann,2026-11-29\n", "utf-8")
    done = invoke("label", tmp_path / "r", "--import", tmp_path / "b.csv")
    assert "1 label added" in done.err + done.out
    assert "1 label changes nothing: the person's stored answer is the same" in " ".join(
        (done.err + done.out).split()
    )
    assert Report.open(tmp_path / "r").tables.labels[-1].answer == 3


@pytest.mark.parametrize("at", ["2026-11-28T12:00:00+02:00", ""])
@pytest.mark.parametrize("who", ["ann", ""])
def test_a_file_that_is_imported_again_adds_nothing(tmp_path: Path, who: str, at: str) -> None:
    """Equal rows, of one item, person, answer and time, are already there; a row without a time is compared by its answer."""
    made(tmp_path)
    path = tmp_path / "a.csv"
    path.write_text(f"sample,id,grade,who,at\nq1,d1.2,3,{who},{at}\nq2,d2.0,0,{who},{at}\n", "utf-8")
    first = invoke("label", tmp_path / "r", "--import", path)
    stored = Report.open(tmp_path / "r").tables.labels
    second = invoke("label", tmp_path / "r", "--import", path)
    assert "2 labels added" in first.err
    assert "0 labels added" in second.err
    assert "2 labels are already there" in second.err
    assert Report.open(tmp_path / "r").tables.labels == stored
    path.write_text(path.read_text().replace(",3,", ",2,"), "utf-8")
    third = invoke("label", tmp_path / "r", "--import", path)
    assert "1 label added" in third.err
    assert "1 label is already there" in third.err


@pytest.mark.parametrize("at", ["2026-11-28T10:00:00+00:00", ""])
@pytest.mark.parametrize(
    "added",
    [{"reason": "it names the year"}, {"guideline": "g2"}, {"design": {"probability": 0.5}, "queue": "random"}],
)  # fmt: skip
def test_a_label_that_adds_something_is_imported(tmp_path: Path, at: str, added: dict[str, Any]) -> None:
    """A reason, a guideline or how it was drawn is stored, though the person's answer is the same."""
    report = made(tmp_path)
    item, path = label_tasks(report)[0].item, tmp_path / "labels.jsonl"
    row = {"item": item, "kind": "relevance", "answer": 2, "scale": "graded", "who": "ann"}
    path.write_text(json.dumps({**row, "at": "2026-11-28T10:00:00+00:00"}) + "\n", "utf-8")
    keep(report)(*import_labels(path, report, None)[0])
    again = Report.open(tmp_path / "r")
    assert import_labels(path, again, None)[0] == []
    path.write_text(json.dumps({**row, "at": at or None, **added}) + "\n", "utf-8")
    (found,) = import_labels(path, again, None)[0]
    assert [getattr(found, name) for name in added] == [freeze(value) for value in added.values()]
    keep(again)(found)
    assert import_labels(path, Report.open(tmp_path / "r"), None)[0] == []


def test_unsure_after_an_answer_was_taken_back_is_an_answer(tmp_path: Path) -> None:
    """Both lack a grade; only the one takes the passage out of the labelled ones."""
    report, path = made(tmp_path), tmp_path / "labels.jsonl"
    row = {"item": label_tasks(report)[0].item, "kind": "relevance", "answer": None, "scale": "graded"}
    path.write_text(json.dumps({**row, "who": "ann", "reason": UNSURE}) + "\n", "utf-8")
    (unsure,) = import_labels(path, report, None)[0]
    keep(report)(structs.replace(unsure, reason=TAKEN_BACK, at="2026-11-28T10:00:00+00:00"))
    (found,) = import_labels(path, Report.open(tmp_path / "r"), None)[0]
    assert (found.answer, found.reason) == (None, UNSURE)


def test_qrels_of_a_longer_scale_keep_it(tmp_path: Path) -> None:
    """Grades are not squeezed: the scale is named."""
    report = made(tmp_path)
    (tmp_path / "q.txt").write_text("q1 0 d1.2 4\nq2 0 d2.0 -1\nq2 0 other 1\n", "utf-8")
    found, notes = import_labels(tmp_path / "q.txt", report, "ann")
    assert f"(the first: {tmp_path}/q.txt:3)" in notes[0]
    assert [(one.answer, one.scale) for one in found] == [(4, "0-4"), (0, "0-4")]


def test_labels_are_exported_as_csv_and_qrels(tmp_path: Path) -> None:
    """With the document's id; what a spreadsheet would run is made harmless."""
    report = made(tmp_path)
    (tmp_path / "in.csv").write_text("sample,id,grade,reason\nq1,d1.2,3,=1+1\nq2,d2.0,0,\n", "utf-8")
    for one in import_labels(tmp_path / "in.csv", report, "ann")[0]:
        keep(report)(one)
    again = Report.open(tmp_path / "r")
    assert export_labels(tmp_path / "out.qrels", again) == (2, 0)
    assert (tmp_path / "out.qrels").read_text("utf-8") == "q1 0 d1.2 3\nq2 0 d2.0 0\n"
    assert export_labels(tmp_path / "out.csv", again) == (2, 0)
    lines = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("sample,system,id,answer")
    assert lines[1].startswith("q1,,d1.2,3,graded,ann")
    assert "'=1+1" in lines[1]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.csv",
            "sample,id,grade,who\nq1,d1.2,1,ann\nq1,d1.2,2,Andr\xe9\n".encode("latin-1"),
            "a.csv:3:15: the byte 0xe9",
        ),
        ("a.csv", "sample,id,grade\nq1,d1.2,2\n".encode("utf-16"), "a.csv: this file is encoded as UTF-16"),
        ("a.csv", b'sample,id,grade\nq1,"d1.2,2\n', "a.csv:2: this row cannot be split into cells"),
        (
            "a.jsonl",
            b'{"sample": "q1", "id": "d1.2", "grade": 2, "who": "Andr\xe9"}\n',
            r"a.jsonl:1:\d+: the byte 0xe9",
        ),
        ("a.jsonl", b"[" * 100_000 + b"\n", "a.jsonl:1:1: the JSON is nested"),
        ("a.jsonl", b'{"sample": "q1", "id": "d1.2", "grade": %s}\n' % (b"9" * 5000), "too many digits"),
        ("a.jsonl", b'{"sample": "q1", "id": "d1.2", "grade": %s}\n' % (b"9" * 400), "not on the scale 0-3"),
        ("a.jsonl", b'{"sample": "q1", "id": "d1.2", "grade": 1e308}\n', "no usable answer"),
        ("a.csv", b"sample,id,grade\nq1,d1.2,%s\n" % (b"9" * 5000), "a.csv:2: .* no usable answer"),
        (
            "a.csv",
            b"sample,id,grade,scale\nq1,d1.2,2,x-y\n",
            "a.csv:2: unknown scale 'x-y'; write graded, binary, or grades such as 0-4",
        ),
        (
            "a.csv",
            b"sample,id,grade,scale\nq1,d1.2,2,0-%s\n" % (b"9" * 400),
            "a.csv:2: unknown scale '0-999",
        ),
        (
            "a.jsonl",
            b'{"sample": "q1", "id": "d1.2", "grade": 2, "who": 5}\n',
            "a.jsonl:1: this label cannot be used",
        ),
        ("a.qrels", b"q1 0 d1.2 %s\n" % (b"9" * 400), "a.qrels:1: the grade .* up to 1000000000"),
        ("a.qrels", b"q1 0 d1.2 %s\n" % (b"9" * 5000), "a.qrels:1: the grade"),
    ],
)
def test_damaged_files_are_errors_with_their_place(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    """Never an internal error, whatever the encoding, and no number that no table holds."""
    report = made(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        import_labels(tmp_path / name, report, "ann")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "{\n", "a.jsonl:1:2: the JSON ends too early"),
        ("a.jsonl", '{"sample": "q1"}\n', "no usable answer"),
        ("a.jsonl", '{"grade": 1}\n', "does not name the passage that it labels"),
        (
            "a.jsonl",
            '{"item": "a", "kind": "relevance", "rank": 1}\n',
            "no usable answer",
        ),  # a row of places.jsonl
        ("a.csv", "sample,id,grade\nq1,d1.2,7\n", "not on the scale 0-3"),
        ("a.csv", "sample,id,grade\nq1,d1.2,good\n", "no usable answer"),
        ("a.csv", "sample,id,grade\nq1,other,1\n", "no row of 1 names a passage .*, as 'q0' and 'd0.0'"),
        ("a.jsonl", "", "a.jsonl: this file is empty; write a row per label"),
        ("a.ndjson", '{"grade": 1}\n', "a.ndjson:1: this row does not name the passage"),
        ("a.csv", "sample,id,grade\nq1,d1.2,\n", "none of its 1 row has an answer"),
        (
            "a.csv",
            "q1,d1.2,2\n",
            "a.csv:1: no column of this file holds the grade; its columns are q1, d1.2, 2; begin with a header",
        ),
        (
            "a.tsv",
            "sample\tid\tgrade\nq1\td1.2\t2\n",
            "a.tsv:1: labels in a .tsv file are read as qrels, and no column .* write a .csv or .jsonl file",
        ),
        (
            "a.json",
            '[{"id": "d1.2", "grade": 2}]',
            "a.json: labels in a .json file are read as qrels, and query d1.2: this row has a grade and no document id; write a .csv",
        ),
        (
            "a.json",
            '[\n{"sample": "q1", "id": "d1.2", "grade": 2},\n{"sample": "q1", "id": "d1.2", "grade": 9}\n]',
            "a.json:3: the answer of this label is not on the scale 0-3",
        ),
        (
            "a.xlsx",
            "PK\x03\x04 [Content_Types].xml",
            "a.xlsx: this file is a ZIP archive or an Excel workbook; unpack the file, or save it as CSV UTF-8",
        ),
        (
            "a.csv",
            "sample,id,grade,at\nq1,d1.2,1,2026-11-28\nq2,d2.0,1,12/30/2025 09:00\n",
            "a.csv:3: .*'12/30/2025 09:00'",
        ),
        (
            "a.jsonl",
            '{"sample": "q1", "id": "d1.2", "grade": 1, "at": "1764320400"}\n',
            "a.jsonl:1: .*not a time in ISO 8601",
        ),
        ("none.csv", None, "no file"),
    ],
)
def test_what_is_no_label_is_refused(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    """With file and line, before anything is added."""
    report = made(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        import_labels(tmp_path / name, report, "ann")


def test_labels_of_an_odd_kind_are_of_no_passage(tmp_path: Path) -> None:
    """A kind that is no text is not relevance."""
    (tmp_path / "a.jsonl").write_text('{"sample": "q1", "id": "d1.2", "grade": 1, "kind": ["x"]}\n')
    with pytest.raises(InputError, match="no label of a passage"):
        LabelFile(tmp_path / "a.jsonl")


def test_a_run_reads_no_label_that_was_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no label, as in `score` of the report, and not an unsure one."""
    monkeypatch.chdir(tmp_path)
    sample = {"id": "q", "query": "when?", "contexts": [{"id": "d", "text": "at noon"}]}
    Path("s.jsonl").write_text(json.dumps(sample))
    Path("in.csv").write_text("sample,id,grade,who\nq,d,0,ann\nq,d,3,bob\n")
    words = "-m", "P(labels=human)@1"
    assert invoke("run", "s.jsonl", "-m", "context_precision", "--judge", "lexical", "-o", "r").code == 0
    assert invoke("label", "r", "--import", "in.csv").code == 0
    (ann,) = (label for label in Report.open("r").labels() if label.who == "ann")
    keep(Report.open("r"))(structs.replace(ann, answer=None, reason=TAKEN_BACK))
    assert invoke("run", "s.jsonl", *words, "--labels", "r", "-o", "again").code == 0
    assert invoke("score", "r", *words, "-o", "scored").code == 0
    for name in ("again", "scored"):
        assert [score.value for score in Report.open(name).scores()] == [1.0], name


@pytest.mark.parametrize("between", [0, 600], ids=["near", "far"])
@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        ([("q1", "d1", 3, "ann"), ("q1", "d1", 0, "bob"), ("q2", "d1", 0, "eve")], 1 / 3),
        (
            [("q1", "d1", 3, "ann"), ("q1", "d1", 0, "bob"), ("q2", "d1", 3, "ann"), ("q2", "d1", 0, "eve")],
            1 / 3,
        ),
        ([("q1", "d1", 0, "ann"), ("q2", "d1", 3, "bob"), ("q2", "d1", 3, "eve")], 2 / 3),
        ([("q1", "d1", None, "ann"), ("q2", "d1", 2, "ann")], 1.0),
    ],
)
def test_labels_of_one_passage_under_two_ids_count_together(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str, int | None, str]],
    mean: float,
    between: int,
) -> None:
    """Every person counts, in `run --labels` as in `score` of its report, however many samples are between the two."""
    monkeypatch.chdir(tmp_path)
    same = {"query": "when?", "contexts": [{"id": "d1", "text": "at noon"}]}
    others = [{"id": f"other{n}", "query": "why?", "contexts": []} for n in range(between)]
    samples = [{"id": "q1", **same}, *others, {"id": "q2", **same}]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    names = "sample", "id", "answer", "who"
    lines = [{**dict(zip(names, row, strict=True)), "item": None} for row in rows]
    Path("people.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = "--judge", "labels", "--labels", "people.jsonl"
    assert invoke("run", "s.jsonl", *words, "-m", "P(labels=human)@1", "-o", "r").code == 0
    assert invoke("score", "r", "-m", "P(labels=human)@1", "-o", "again").code == 0
    for name in ("r", "again"):
        values = {score.sample: score.value for score in Report.open(name).scores()}
        assert (values["q1"], values["q2"]) == pytest.approx((mean, mean)), name


def test_labels_of_equal_passages_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two documents with the same text are one passage: the labels of both count."""
    monkeypatch.chdir(tmp_path)
    contexts = [{"id": name, "text": "at noon"} for name in ("d1", "d2", "d1")]
    Path("s.jsonl").write_text(json.dumps({"id": "q", "query": "when?", "contexts": contexts}) + "\n")
    Path("people.csv").write_text("sample,id,grade,who\nq,d1,3,ann\nq,d2,0,bob\nq,d2,0,eve\n")
    words = "--judge", "labels", "--labels", "people.csv"
    assert invoke("run", "s.jsonl", *words, "-m", "P(labels=human)@1", "-o", "r").code == 0
    (score,) = Report.open("r").scores()
    assert score.value == pytest.approx(1 / 3)
    assert len([*Report.open("r").labels()]) == 3


@pytest.mark.parametrize("name", ["labels.jsonl", "labels.csv"])
def test_unsure_labels_survive_an_export(tmp_path: Path, name: str) -> None:
    """A file that lacks them would correct the judge as if these passages had never been drawn."""
    report = made(tmp_path)
    (tmp_path / "in.csv").write_text("sample,id,grade\nq1,d1.2,3\nq2,d2.0,0\n", "utf-8")
    sure, other = import_labels(tmp_path / "in.csv", report, "ann")[0]
    keep(report)(sure)
    keep(report)(structs.replace(other, answer=None, reason=UNSURE))
    keep(report)(structs.replace(other, who="bob", answer=3))
    keep(report)(structs.replace(other, who="bob", answer=None, reason=TAKEN_BACK))
    again = Report.open(tmp_path / "r")
    assert export_labels(tmp_path / name, again) == (2, 0)
    assert export_labels(tmp_path / "out.qrels", again) == (1, 1)
    found, _ = import_labels(tmp_path / name, made(tmp_path, "elsewhere"), None)
    assert [(one.item, one.who, one.answer, one.reason) for one in found] == [
        (sure.item, "ann", 3, None),
        (other.item, "ann", None, UNSURE),
    ]
    assert import_labels(tmp_path / name, again, None) == ([], ["2 labels are already there"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Sample,ID,Grade\nq,d1,3\nq,d2,0\n", 1.0),
        ("Query ID,Doc-Id,GRADE\nq,d1,3\nq,d2,0\n", 1.0),
        ("sample,id,grade\n q , d1 , 3 \nq,d2, 0\n", 1.0),
        ("sample,id,grade\nq,d7,3\n", None),
        ("sample,id,grade\nq1,d1,3\nq1,d2,0\n", None),
    ],
)
def test_labels_of_a_file_meet_the_passages(tmp_path, monkeypatch, text, value):
    """Headings in any case and blanks around cells do not matter; labels that meet nothing are said."""
    monkeypatch.chdir(tmp_path)
    contexts = [{"id": name, "text": f"text of {name}"} for name in ("d1", "d2")]
    Path("s.jsonl").write_text(json.dumps({"id": "q", "query": "when?", "contexts": contexts}) + "\n")
    Path("people.csv").write_text(text)
    words = "--judge", "labels", "--labels", "people.csv", "-m", "context_precision", "-o", "r"
    ran = invoke("run", "s.jsonl", *words, "--no-cache")
    assert next(Report.open("r").scores()).value == value
    assert ("people.csv: no label is for a passage of these samples (q)" in ran.err) == (value is None)
