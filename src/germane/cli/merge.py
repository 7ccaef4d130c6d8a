"""`germane merge`: one report of several parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from germane.errors import InputError


def merge(folders: Sequence[Path], *, output: Sequence[Path], force: bool, json: bool, quiet: bool) -> int:
    """Make one report of the parts that `germane run --part` made: the same as of a run in one part.

    The gates of the run are decided here, on the whole; exit codes are those of `germane run`.
    """
    from germane.cli.printing import check_writable, finish
    from germane.evaluation.parts.merging import merge_parts

    files = [path for path in output if path.suffix]
    targets = [path for path in output if not path.suffix]
    for path in files:
        check_writable(path, ())
    if len(targets) != 1:
        raise InputError("the report needs a folder", fix="name one: -o germane-reports/whole")
    if targets[0].resolve() in {folder.resolve() for folder in folders}:
        raise InputError(f"-o {targets[0]} is one of the parts", fix="name another folder")
    report, before = merge_parts(folders, targets[0], force=force)
    baselines = {} if before is None else {"": before}
    return finish({"": report}, files, as_json=json, quiet=quiet, baselines=baselines)
