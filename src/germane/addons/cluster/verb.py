"""`germane merge`: one report of what was run in several parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.addons.cluster.merging import merge_parts
from germane.cli.printing import Outputs, check_writable, finish
from germane.errors import InputError
from germane.samples.urls import local


def merge(
    folders: Sequence[Path],
    *,
    output: Sequence[Path],
    force: bool,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Join the reports of `germane run --part` into one, the same as of a run in one part.

    Gates are decided here, on the whole. Exit codes are those of `germane run`.
    """
    outputs = Outputs.of(output)
    files, target = outputs.files, outputs.folder or outputs.made
    for path in files:
        check_writable(path, ())
    if target is None:
        raise InputError("the report needs a folder", fix="name one: -o germane-reports/whole")
    outputs.refuse_other(replace=force)
    parts = [part for folder in folders for part in _parts_in(folder)]
    if target.resolve() in {part.resolve() for part in parts}:
        raise InputError(f"-o {target} is one of the parts", fix="name another folder")
    report, before = merge_parts(parts, target, force=force)
    code = finish(report, files, as_json=json, quiet=quiet, verbose=verbose, baseline=before)
    outputs.put(report, store=outputs.store or "")
    return code


def _parts_in(folder: Path) -> Iterator[Path]:
    """Iterate over the part folders at a path or URL: one part, or a folder of parts."""
    folder = local(folder)
    if (folder / "manifest.json").exists():
        yield folder
    else:
        yield from sorted(file.parent for file in folder.glob("*/manifest.json")) or [folder]
