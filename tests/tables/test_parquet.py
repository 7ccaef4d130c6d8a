"""Tables in Parquet: the same rows as in JSON lines, to the byte, and whatever reads a report reads both."""

import json
import logging
from collections.abc import Callable
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from germane import evaluate
from germane.encoding import encode, encode_record
from germane.errors import InputError
from germane.reports.report import Report
from germane.tables import folder, parquet
from germane.tables.folder import ReportFolder
from germane.tables.judgements import JudgementTable, judgement_line
from germane.tables.part import Part
from germane.tables.scores import ScoreTable
from germane.tables.stored import lines_of
from germane.types import ItemRow, Judgement, Sample, Score, Usage

TABLES = ("samples", "items", "judgements", "scores")
ROWS = [
    {
        "id": f"q{n}",
        "query": 'say "a"\n\\ \x00 ü \ud83d' if n == 2 else f"what is {n}",
        "contexts": [{"id": f"d{k}", "text": f"a {n} {k}"} for k in range(3)],
        "qrels": {"d1": 1, "d7": 2},
        "metadata": {"big": 1 << 70, "nested": [None, 1.0, {"x": "é"}]} if n == 1 else {},
        "tags": ["slow"] * (n % 2),
    }
    for n in range(6)
]


def lines(path: Path, name: str) -> list[bytes]:
    return [line for _, line in lines_of(path / f"{name}.jsonl")]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One report, with its tables as JSON lines and as Parquet."""
    path = tmp_path_factory.mktemp("forms")
    report = evaluate(ROWS, "context_precision@3 nDCG@3 context_recall", judge="lexical")
    report.save(path / "lines", form="jsonl")
    report.save(path / "parts", form="parquet")
    return path / "lines", path / "parts"


def test_a_report_in_parquet_has_the_same_rows(both: tuple[Path, Path]) -> None:
    """All tables are parts, a field that a column cannot hold included, and give back the lines of the others."""
    one, other = both
    assert sorted(path.name for path in other.iterdir() if path.is_dir()) == sorted(folder.FOLDERS)
    assert not set(folder.OWN[:4]) & {path.name for path in other.iterdir()}
    for name in TABLES:
        assert lines(one, name) == lines(other, name), name
    documents = [json.loads(json.dumps(Report.open(path).to_json())) for path in both]
    assert documents[0]["measures"] == documents[1]["measures"]


def test_others_read_its_columns(both: tuple[Path, Path]) -> None:
    """Scores, items and samples meet by their names, without germane."""
    frames = {name: polars.read_parquet(both[1] / f"{name}.parquet" / "*.parquet") for name in TABLES}
    keys = ["sample", "system", "trial"]
    met = frames["scores"].join(frames["samples"], left_on=keys, right_on=["id", "system", "trial"])
    assert len(met) == len(frames["scores"]) == 18
    assert met.filter(measure="nDCG@3")["value"].to_list() == [
        score.value for score in Report.open(both[0]).scores() if score.measure == "nDCG@3"
    ]
    assert len(frames["items"].join(frames["judgements"], on="item")) == len(frames["items"])
    assert frames["judgements"]["answer"].str.json_path_match("$.grade").is_not_null().any()
    assert not any(frame["line"].count() for frame in frames.values())  # the columns hold everything


TEXT = st.text(st.characters(codec=None), max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
                    lambda one: st.lists(one, max_size=2) | st.dictionaries(TEXT, one, max_size=2), max_leaves=4)  # fmt: skip


@example("\ud800", None, 0.0, 0)
@example("\udc00", "\ud800x", 0.0, 1 << 70)
@given(TEXT, JSON, st.floats(allow_nan=False, allow_infinity=False), st.integers())
def test_any_row_comes_back_to_the_byte(text: str, value: object, number: float, whole: int) -> None:
    """Any texts, numbers and nested values, and keys that no record has."""
    made = Judgement(key=text, kind=text, judge=text, answer=value, error=text or None, ms=number,
                     usage=Usage(cost_usd=number), provenance={f"x{text}": value, "n": whole})  # fmt: skip
    rows: dict[str, list[object]] = {
        "judgements": [made, Judgement(key="k", kind="k", judge="j")],
        "items": [ItemRow(item=text, kind=text, sample=text, trial=whole, of=text)],
        "scores": [{"sample": text, "value": number, "bounds": [number, None], "why": text, "more": value}],
        "samples": [{"id": text, "query": text, "trial": whole, "metadata": {"a": value}, "graders": 3}],
    }
    for name, some in rows.items():
        written = [judgement_line(one) if isinstance(one, Judgement) else written_line(one) for one in some]
        frame = parquet._frame(polars, name, b"".join(written))
        assert parquet._lines(polars, name, frame) == written


def test_a_part_of_scores_is_made_of_their_table(tmp_path: Path) -> None:
    """Notes, bounds and both zeros included; where a column cannot hold a text, the lines are read."""
    table = ScoreTable()
    for n, value in enumerate([0.0, -0.0, 0.5, None, 1e300, 0.0] * 3):
        why, status = (None, "ok") if value is not None else ("no gold", "skipped")
        bounds = (0.25, 0.75) if value == 0.5 else (0.1, inf) if value == 1e300 else None
        table.append((f"q{n // 2}", "", 0), f"m{n % 2}", f"m{n % 2}", value, status, why, bounds)  # type: ignore[arg-type]
    written, part = b"".join(table.lines()), tmp_path / "scores.parquet" / "00001.parquet"
    parquet.write_scores(part, table, 0, len(table))
    assert b"".join(parquet.read_part(part)) == written
    assert stored_scores(part) == list(table)
    assert not polars.read_parquet(part)["line"].count()
    table = ScoreTable(Score(sample=name, measure="m", type="m", value=1.0) for name in ("a", "\ud800"))
    written = b"".join(table.lines())
    parquet.write_scores(part, table, 0, len(table))
    assert b"".join(parquet.read_part(part)) == written
    assert stored_scores(part) == [*table]
    for wrong in (
        b'"value":null,"status":"ok"',
        b'"value":1.0,"status":"error"',
        b'"value":null,"status":"error"',
    ):
        line = (
            b'{"sample":"a","system":"","trial":0,"measure":"m","type":"m",%b,"why":null,"bounds":null}\n'
            % wrong
        )
        parquet.write_part(part, BytesIO(line), len(line))
        with pytest.raises(InputError, match="not a score"):
            stored_scores(part)


def stored_scores(part: Path) -> list[Score]:
    """The scores of a part, read by its columns."""
    table = ScoreTable()
    for rows in parquet.read_columns(part):
        table.read(rows)
    assert list(table.lines()) == list(parquet.read_part(part))
    return list(table)


def written_line(row: object) -> bytes:
    return (encode_record(row) if isinstance(row, ItemRow) else encode(row)) + b"\n"


def test_a_large_report_is_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above so many samples, in several parts; with jsonl not, and below not."""
    report = evaluate(ROWS, "context_precision@3", judge="lexical")
    monkeypatch.setattr(folder, "LARGE", len(ROWS))
    report.save(tmp_path / "small")
    assert (tmp_path / "small" / "samples.jsonl").exists()
    monkeypatch.setattr(folder, "LARGE", len(ROWS) - 1)
    monkeypatch.setattr(folder, "PART_BYTES", 1000)
    report.save(tmp_path / "large")
    report.save(tmp_path / "lines", form="jsonl")
    assert len(list((tmp_path / "large" / "judgements.parquet").iterdir())) > 2
    for name in TABLES:
        assert lines(tmp_path / "large", name) == lines(tmp_path / "lines", name), name
    again = Report.open(tmp_path / "large")
    again.save(tmp_path / "large", form="jsonl")
    assert not list(tmp_path.glob("large/*.parquet"))
    Report.open(tmp_path / "large").save(tmp_path / "large", form="parquet")
    assert not list(tmp_path.glob("large/s*.jsonl"))
    assert lines(tmp_path / "large", "scores") == lines(tmp_path / "lines", "scores")


def test_without_polars_it_stays_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is said once; where Parquet is asked for, the extra is named."""
    report = evaluate(ROWS, "context_precision@3", judge="lexical")

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(folder, "LARGE", 2)
    monkeypatch.setattr(parquet, "import_module", absent)
    with caplog.at_level(logging.WARNING, "germane"):
        report.save(tmp_path / "r")
    assert [
        one.message for one in caplog.records if "stays JSON lines" in one.message and "tables" in one.message
    ]
    assert len(caplog.records) == 1
    assert len(lines(tmp_path / "r", "samples")) == len(ROWS)
    with pytest.raises(InputError, match=r"--format parquet needs polars.*tables"):
        report.save(tmp_path / "p", form="parquet")


@pytest.mark.parametrize("how", ["changed", "missing", "added", "lines"])
def test_a_changed_part_is_an_error_that_names_it(tmp_path: Path, how: str) -> None:
    """As with JSON lines; so is a file of rows that the report did not write."""
    evaluate(ROWS, "nDCG@3").save(tmp_path, form="parquet")
    part = tmp_path / "scores.parquet" / "00001.parquet"
    if how == "changed":
        part.write_bytes(part.read_bytes() + b" ")
    elif how == "missing":
        part.unlink()
    elif how == "added":
        part.with_name("00002.parquet").write_bytes(part.read_bytes())
    else:
        (tmp_path / "scores.jsonl").write_bytes(lines(tmp_path, "scores")[0])
    problem = {"changed": "00001.parquet was changed", "missing": "00001.parquet is missing",
               "added": "00002.parquet is not a file of this report", "lines": "scores.jsonl is not a file of"}[how]  # fmt: skip
    with pytest.raises(InputError, match=problem):
        Report.open(tmp_path)


def test_a_damaged_part_of_an_unfinished_report_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Its digests are not known yet."""
    part = tmp_path / "judgements.parquet.part" / "00001.parquet"
    part.parent.mkdir()
    part.write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match=r"00001\.parquet is damaged"):
        list(ReportFolder(tmp_path).earlier())


def test_scores_are_read_while_they_become_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each `flush` the rows so far, whatever is lines, in a part or still columns; in the end all, in alike parts."""
    monkeypatch.setattr(folder, "LARGE", 2)
    monkeypatch.setattr(folder, "PART_BYTES", 5 * folder.SCORE_BYTES)
    writing = ReportFolder(tmp_path).start()
    added = list[Score]()
    for n in range(7):
        part = Part(samples=[Sample(id=f"q{n}-{k}", query="q") for k in range(2)])
        some = [
            Score(sample=one.id, measure=m, type=m, value=n / 7) for one in part.samples for m in ("a", "b")
        ]
        part.scores, added = ScoreTable(some), [*added, *some]
        writing.add(part)
        if n in {0, 3, 4}:
            writing.flush()
            assert list(ReportFolder.unfinished(_described(writing)).scores) == added
    writing.finish({})
    writing.close()
    assert lines(tmp_path, "scores") == list(ScoreTable(added).lines())
    assert list(ReportFolder.open(tmp_path).scores) == added
    parts = sorted((tmp_path / "scores.parquet").iterdir())
    assert len(parts) > 3
    assert max(len(polars.read_parquet(part)) for part in parts) <= 8


def _described(writing: ReportFolder) -> Path:
    writing.write_manifest({}, "running")
    return writing.path


def test_what_a_killed_session_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole parts, and the lines after them but for half a one; a part that is not whole is not there."""
    monkeypatch.setattr(folder, "PART_BYTES", 500)
    monkeypatch.setattr(folder, "_AT_ONCE", 10)
    made = [
        Judgement(key=f"{n:032x}", item=f"{n:032x}", kind="relevance", judge="j", answer={"grade": n})
        for n in range(35)
    ]
    killed = ReportFolder(tmp_path, "parquet").start()
    killed.add(Part(judgements=JudgementTable(made)))
    killed.close()
    left = tmp_path / "judgements.parquet.part"
    assert list(left.iterdir())
    (left / ".00009.parquet").write_bytes(b"half a part")
    with (tmp_path / "judgements.jsonl.part").open("ab") as file:
        file.write(b'{"key": "00')
    looking = ReportFolder(tmp_path).earlier()
    keys = [one.key for one in made]
    assert list(looking) == made
    assert looking.find(keys) == dict(zip(keys, made, strict=True))
    following = ReportFolder(tmp_path, "parquet").start()
    assert list(following.earlier()) == made
    assert not left.exists()
    following.add(Part(judgements=JudgementTable(made)))
    following.finish({})
    following.close()
    finished = ReportFolder(tmp_path).earlier()
    assert list(finished) == made
    assert list(finished.find(keys[::-1])) == keys[::-1]


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_kill_between_any_two_steps_on_disk_neither_doubles_nor_loses_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While lines become a part, or several: what is read is what was written so far, once."""
    monkeypatch.setattr(folder, "PART_BYTES", 500)
    monkeypatch.setattr(folder, "_AT_ONCE", 10)  # three parts each time
    rows = [
        Judgement(key=f"{n:032x}", item=f"{n:032x}", kind="relevance", judge="j", answer={"grade": n})
        for n in range(25)
    ]
    steps, killed_at = 0, 0

    def killable(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == killed_at:
                raise Killed
            return real(*args, **options)

        return step

    for owner, name in [(Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (folder, "_open")]:
        monkeypatch.setattr(owner, name, killable(getattr(owner, name)))
    killed = True
    while killed:
        steps, killed_at, writing = -1000, killed_at + 1, ReportFolder(tmp_path / f"{killed_at}", "parquet")
        writing.start()
        steps, killed = 0, False
        try:
            writing.add(Part(judgements=JudgementTable(rows)))
        except Killed:
            killed = True
        steps, written = -1000, writing._files["judgements"].lines
        left = [line for _, line in lines_of(writing._path("judgements"))]
        assert left == [*map(judgement_line, rows[:written])], killed_at
        writing.close()
        (writing.path / "judgements.jsonl.earlier").write_bytes(b'{"key":"00')  # killed as it set rows aside
        following = ReportFolder(writing.path, "parquet").start()
        assert list(following.earlier()) == rows[:written]
        following.close()
    assert killed_at > 15


def test_some_samples_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their keys, by an id or a query; their items: the same of lines and of parts, with halves of pairs in them."""
    monkeypatch.setattr(folder, "PART_BYTES", 400)
    monkeypatch.setattr(folder, "_AT_ONCE", 2)
    ids = ["a", "b", "\ud83d", "c", "a"]
    for form in ("jsonl", "parquet"):
        writing = ReportFolder(tmp_path / form, form).start()
        for n, name in enumerate(ids * 3):
            sample = {"id": name, "query": f"of {name}", "trial": n}
            item = {"item": f"i{n}", "kind": "k", "sample": name, "system": "", "trial": n}
            writing.write_lines("samples", [encode(sample) + b"\n"])
            writing.write_lines("items", [encode(item) + b"\n"])
            writing.flush()
        writing.finish({})
        writing.close()
        assert bool(list(writing.path.glob("samples.parquet/*"))) == (form == "parquet")
        for name in {*ids, "none"}:
            here = [n for n, other in enumerate(ids * 3) if other == name]
            for text in (name, f"of {name}"):
                assert [sample.trial for sample in writing.samples_named(text)] == here
            keys = {(name, "", n) for n in here[1:]}
            assert [sample.trial for sample in writing.samples_of(keys)] == here[1:]
            assert [row.trial for row in writing.items_of(keys)] == here[1:]


def test_what_few_samples_have_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags, clusters, grader sets, calls: the same of lines, of parts and of parts with lines after them."""
    monkeypatch.setattr(folder, "PART_BYTES", 400)
    monkeypatch.setattr(folder, "_AT_ONCE", 2)
    plain = '{"id":"p%d","query":"q","system":"s","metadata":{"tags":1,"cluster":"no"}}\n'
    written = [
        b'{"id":"a","query":"q","tags":["t","\\ud83d"],"cluster":"c1"}\n',
        *((plain % n).encode() for n in range(6)),
        b'{"id":"b","query":"q","trial":2,"tags":["u"],"graders":3}\n',
        b'{"id":"c","query":"q","cluster":"c2","graders":1}\n',
    ]
    seen = list[list[Any]]()
    for form in ("jsonl", "parquet"):
        writing = ReportFolder(tmp_path / form, form).start()
        writing.write_lines("samples", written)
        writing.flush()
        seen.append([list(writing.tags()), writing.clusters(), writing.grader_numbers()])
        assert len(list(writing.path.glob("samples.parquet.part/*"))) == (0 if form == "jsonl" else 2)
        assert not writing.any_has("calls")
        writing.write_lines("samples", [b'{"id":"d","query":"q","calls":[]}\n'] * 2)
        writing.flush()
        assert writing.any_has("calls")
        writing.finish({})
        writing.close()
        seen.append([list(writing.tags()), writing.clusters(), writing.grader_numbers()])
    tags = [(("a", "", 0), ("t", "\ud83d")), (("b", "", 2), ("u",))]
    expected = [tags, {"a": "c1", "c": "c2"}, {("b", "", 2): 3, ("c", "", 0): 1}]
    assert [[[(key, tuple(some)) for key, some in one[0]], *one[1:]] for one in seen] == [expected] * 4
