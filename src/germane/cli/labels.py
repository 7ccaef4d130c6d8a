"""`germane labels check` and `move`: gold after the corpus, or its chunks, have changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from germane.clean import clean, shorten, some_of
from germane.cli.values import print_document, say
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.types import Sample


def check(path: Path, *, corpus: Path, json: bool) -> None:
    """Say which gold ids a corpus has, whose text changed, and where the quotes of the evidence stand.

    The text that a document had is taken from the contexts of the samples, where it was retrieved.
    """
    from germane.labelling.corpus import Corpus
    from germane.labelling.moving import check_labels, quotes_in

    found = check_labels(_samples_in(path), Corpus(corpus))
    if json:
        print_document(found.as_json())
        return
    lines = [
        f"{len(found.ids)} gold ids, {found.corpus['documents']:,} documents in the corpus {found.corpus['digest']}"
    ]
    for names, what in ((found.missing, "exist no longer"), (found.changed, "have another text now")):
        if names:
            lines.append(f"  {len(names)} {what}: {some_of(names)}")
    if found.unknown:
        lines.append(f"  {found.unknown} exist, and no context says which text they had")
    if found.quotes:
        lines.append(
            f"{len(found.quotes)} quotes: {', '.join(f'{count} {where}' for where, count in quotes_in(found) if count)}"
        )
    for one in found.quotes:
        places = ", ".join(
            f"{at.document} {at.start}-{at.end}" + (f" ({at.share:.0%})" if at.share < 1 else "")
            for at in one.places[:3]
        )
        if not one.whole:
            lines.append(
                f"  {shorten(one.sample, 40)}: {shorten(one.quote, 60)!r} {places or 'stands nowhere'}"
            )
    for line in lines:
        print(clean(line))


def move(path: Path, *, corpus: Path, output: Path, json: bool) -> None:
    """Carry gold to the documents of another corpus, by quoted evidence or by the text of the old passages.

    Written are samples without contexts. What is not certain is `unsure`: measures over gold are then bounds.
    """
    from germane.encoding import encode_record
    from germane.labelling.corpus import Corpus
    from germane.labelling.moving import move_labels

    if output.suffix.lower() != ".jsonl":
        raise InputError(f"-o {output}: samples are written as JSON lines", fix="name it .jsonl")
    if path.exists() and output.exists() and output.samefile(path):
        raise InputError(f"-o {output} is what is read", fix="name another file")
    samples, moved = move_labels(_samples_in(path), Corpus(corpus))
    with output.open("wb") as file:
        file.writelines(encode_record(sample) + b"\n" for sample in samples)
    if json:
        print_document(moved.as_json())
    else:
        print(f"{moved.kept} kept, {moved.carried} carried, {moved.unsure} unsure, {len(moved.lost)} lost")
        for sample, what in moved.lost[:10]:
            print(f"  lost: {shorten(sample, 40)}: {shorten(what, 80)}")
        if len(moved.lost) > 10:
            print(f"  and {len(moved.lost) - 10} more: --json lists them")
        if moved.unsure or moved.lost:
            print("measures over gold are bounds for samples whose gold is unsure")
    say(f"wrote {output}")


def _samples_in(path: Path) -> list[Sample]:
    """The samples of a file, or of a report; those without gold included."""
    from germane.reports.report import find_report
    from germane.samples.reading import read_samples

    stored = path.is_dir() and ((path / "manifest.json").exists() or any(path.glob("*/manifest.json")))
    return list(find_report(path).samples() if stored else read_samples(path))
