"""The report folder: one writer, rows that are complete or not there, and files that were not changed since."""

from pathlib import Path

from germane import evaluate
from germane.reports.report import Report
from germane.tables import JudgementTable, Part, ReportFolder
from germane.types import Judgement

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
    """Rows that were written and never finished."""
    folder = ReportFolder(path).start()
    folder.add(Part(judgements=JudgementTable(map(judgement, numbers))))
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
    finished = [one.key for one in ReportFolder(tmp_path).earlier()]
    assert len(finished) == 12
    killed(tmp_path, 1, 2)
    with (tmp_path / "judgements.jsonl.part").open("ab") as file:
        file.write(b'{"key": "00')
    killed(tmp_path, 3)
    killed(tmp_path, 4)
    assert list(ReportFolder(tmp_path).earlier())[12:] == [judgement(n) for n in (1, 2, 3, 4)]
    saved(tmp_path)
    assert [one.key for one in ReportFolder(tmp_path).earlier()] == finished


def test_a_folder_where_nothing_ran_has_no_judgements(tmp_path: Path) -> None:
    """No file is no error."""
    assert not list(ReportFolder(tmp_path).earlier())
