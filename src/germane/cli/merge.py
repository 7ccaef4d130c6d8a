"""`germane merge`: one report of several parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from germane.errors import InputError


def merge(folders: Sequence[Path], *, output: Sequence[Path], force: bool, json: bool, quiet: bool) -> int:
    """Make one report of the parts that `germane run --part` made: the same as of a run in one part.

    The gates of the run are decided here, on the whole; exit codes are those of `germane run`.
    """
    from germane.cli.printing import Outputs, check_writable, finish
    from germane.evaluation.parts.merging import merge_parts
    from germane.evaluation.parts.remote import unpacked, url_of

    outputs = Outputs.of(output)
    files, target = outputs.files, outputs.folder or outputs.made
    for path in files:
        check_writable(path, ())
    if target is None:
        raise InputError("the report needs a folder", fix="name one: -o germane-reports/whole")
    outputs.refuse_other(replace=force)
    parts = list[Path]()
    for folder in folders:
        if url := url_of(folder):
            parts += unpacked(url)
        elif folder.suffix == ".zip" or any(folder.glob("*.zip")):
            parts += unpacked(folder.resolve().as_uri())
        elif (folder / "manifest.json").exists():
            parts.append(folder)
        else:  # a folder of parts, as a URL names one
            parts += sorted(file.parent for file in folder.glob("*/manifest.json")) or [folder]
    if target.resolve() in {folder.resolve() for folder in parts}:
        raise InputError(f"-o {target} is one of the parts", fix="name another folder")
    report, before = merge_parts(parts, target, force=force)
    baselines = {} if before is None else {"": before}
    code = finish({"": report}, files, as_json=json, quiet=quiet, baselines=baselines)
    outputs.put({"": report}, store=outputs.store or "")
    return code
