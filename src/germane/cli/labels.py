"""The commands `germane labels check` and `germane labels move`, for gold after the corpus or its chunks have changed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from germane.clean import clean, counted, shorten, some_of
from germane.cli.output import print_document, refuse_input, say
from germane.encoding import encode, encode_records
from germane.errors import InputError
from germane.labelling.corpus import Corpus, carry_labels, check_labels, move_labels
from germane.places.lists import turns
from germane.reports.report import find_report
from germane.samples.files import write_whole
from germane.samples.reading import read_samples
from germane.tables.labels import Label, dump_label, labels_on
from germane.types import Sample


def check(path: Path, *, corpus: Path, json: bool) -> None:
    """Check gold ids, changed texts and quotes of evidence against a corpus.

    The former text of a document is taken from the contexts of samples that retrieved it.
    """
    check = check_labels(_read(path)[0], Corpus(corpus))
    if json:
        print_document(check.as_json())
        return
    documents = counted(int(check.corpus["documents"]), "document")
    lines = [f"{counted(check.ids, 'gold id')}, {documents} in the corpus {check.corpus['digest']}"]
    for names, what in (
        (check.missing, "no longer in the corpus"),
        (check.changed, "with a different text in this corpus"),
    ):
        if names:
            lines.append(f"  {len(names)} {what}: {some_of(names)}")
    if check.unknown:
        lines.append(f"  {check.unknown} in the corpus, with an old text that is unknown (no context has it)")
    found = Counter("whole" if row.whole else "in part" if row.places else "nowhere" for row in check.quotes)
    if check.quotes:
        parts = (f"{found[where]} {where}" for where in ("whole", "in part", "nowhere") if found[where])
        lines.append(f"{counted(len(check.quotes), 'quote')}: {', '.join(parts)}")
    for quote in (row for row in check.quotes if not row.whole):
        places = (f"{at.document} {at.start}-{at.end} ({at.share:.0%})" for at in quote.places[:3])
        text = f"{shorten(quote.sample, 40)}: {shorten(quote.quote, 60)!r}"
        lines.append(f"  {text} {', '.join(places) or 'not found'}")
    for line in lines:
        print(clean(line))


def move(path: Path, *, corpus: Path, output: Path, json: bool) -> None:
    """Move gold and people's labels to the documents of another corpus, by quoted evidence or old passage text.

    Writes samples without contexts, and labels (OUT.labels.jsonl) if there are any. Uncertain matches become
    `unsure`, so that scores that depend on them get bounds.
    """
    if output.suffix.lower() != ".jsonl":
        raise InputError(f"-o {output}: samples are written as JSON Lines", fix="use the extension .jsonl")
    beside = output.with_suffix(".labels.jsonl")
    for written in (output, beside):
        refuse_input(written, [path, corpus])
    before, values = _read(path)
    samples, moved = move_labels(before, searched := Corpus(corpus))
    carried, people = carry_labels(values, before, searched)
    write_whole(output, encode_records(samples))
    if values:
        write_whole(beside, b"".join(encode(dump_label(label)) + b"\n" for label in carried))
        moved.labels = people
    if json:
        print_document(moved.as_json())
    else:
        print(f"{moved.kept} unchanged, {moved.carried} moved, {moved.unsure} unsure, {len(moved.lost)} lost")
        for row in moved.lost[:10]:
            print(f"  lost: {shorten(row['sample'], 40)}: {shorten(row['what'], 80)}")
        if len(moved.lost) > 10:
            print(f"  and {len(moved.lost) - 10} more: --json lists them")
        if moved.unsure or moved.lost:
            print("samples with unsure or lost gold get scores with bounds")
        if values:
            counts = ", ".join(f"{count} {name}" for name, count in people.items() if count)
            print(f"people's labels: {counts}")
    say(f"wrote {output}{f' and {beside}' if values else ''}")


def _read(path: Path) -> tuple[list[Sample], list[Label]]:
    """Return the samples of the file or report at `path`, and people's labels of their contexts."""
    if (path / "manifest.json").exists() or any(path.glob("*/manifest.json")):
        report = find_report(path)
        return list(report.samples()), list(report.labels())
    samples, labels = list(read_samples(path)), list[Label]()
    for sample in samples:
        labels += labels_on(sample, turns(sample))
    return samples, labels
