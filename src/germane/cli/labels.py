"""The commands `germane labels check` and `germane labels move`, for gold after the corpus or its chunks have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import UNSET, UnsetType

from germane.clean import clean, counted, shorten, some_of
from germane.cli.printing import is_report
from germane.cli.values import print_document, refuse_input, say
from germane.encoding import encode, encode_records
from germane.errors import InputError
from germane.labelling.corpus import Corpus
from germane.labelling.files import LabelFile
from germane.labelling.moving import LabelOutcome, carry_labels, check_labels, labels_in, move_labels
from germane.reports.report import find_report
from germane.samples.files import write_whole
from germane.samples.reading import read_samples
from germane.tables.labels import Label, dump_label
from germane.types import Sample


def check(path: Path, *, corpus: Path, labels: Path | None, json: bool) -> None:
    """Check gold ids, changed texts, quotes of evidence, and labelled passages against a corpus.

    The former text of a document is taken from the samples' contexts, where it was retrieved.
    """
    samples, values = _read(path, labels)
    check = check_labels(samples, searched := Corpus(corpus))
    if values:
        check.labels = carry_labels(values, samples, searched)[1]
    if json:
        print_document(check.as_json())
        return
    documents = counted(int(check.corpus["documents"]), "document")
    lines = [f"{counted(check.ids, 'gold id')}, {documents} in the corpus {check.corpus['digest']}"]
    for names, what in ((check.missing, "exist no longer"), (check.changed, "have another text now")):
        if names:
            lines.append(f"  {len(names)} {what}: {some_of(names)}")
    if check.unknown:
        lines.append(f"  {check.unknown} exist, and no context says which text they had")
    found = Counter("whole" if row.whole else "in part" if row.places else "nowhere" for row in check.quotes)
    if check.quotes:
        parts = (f"{found[where]} {where}" for where in ("whole", "in part", "nowhere") if found[where])
        lines.append(f"{counted(len(check.quotes), 'quote')}: {', '.join(parts)}")
    for quote in (row for row in check.quotes if not row.whole):
        places = (f"{at.document} {at.start}-{at.end} ({at.share:.0%})" for at in quote.places[:3])
        text = f"{shorten(quote.sample, 40)}: {shorten(quote.quote, 60)!r}"
        lines.append(f"  {text} {', '.join(places) or 'stands nowhere'}")
    for line in (*lines, *_of_people(check.labels)):
        print(clean(line))


def move(path: Path, *, corpus: Path, labels: Path | None, output: Path, json: bool) -> None:
    """Move gold and people's labels to the documents of another corpus, by quoted evidence or old passage text.

    Writes samples without contexts, and labels (OUT.labels.jsonl) if there are any. Uncertain matches become `unsure`: measures
    over them are bounds.
    """
    if output.suffix.lower() != ".jsonl":
        raise InputError(f"-o {output}: samples are written as JSON lines", fix="name it .jsonl")
    beside = output.with_suffix(".labels.jsonl")
    for written in (output, beside):
        refuse_input(written, [path, labels, corpus])
    before, values = _read(path, labels)
    samples, moved = move_labels(before, searched := Corpus(corpus))
    carried, people = carry_labels(values, before, searched)
    write_whole(output, encode_records(samples))
    if values:
        write_whole(beside, b"".join(encode(dump_label(label)) + b"\n" for label in carried))
        moved.labels = people
    if json:
        print_document(moved.as_json())
    else:
        print(f"{moved.kept} kept, {moved.carried} carried, {moved.unsure} unsure, {len(moved.lost)} lost")
        for row in moved.lost[:10]:
            print(f"  lost: {shorten(row['sample'], 40)}: {shorten(row['what'], 80)}")
        if len(moved.lost) > 10:
            print(f"  and {len(moved.lost) - 10} more: --json lists them")
        if moved.unsure or moved.lost:
            print("measures over gold are bounds for samples whose gold is unsure")
        for line in _of_people(moved.labels):
            print(line)
    say(f"wrote {output}{f' and {beside}' if values else ''}")


def _of_people(labels: Mapping[LabelOutcome, int] | UnsetType) -> Iterator[str]:
    """Yield in words what became of people's labels: `people's labels: 12 same, 3 carried`; nothing where there are none."""
    if labels is not UNSET:
        yield f"people's labels: {', '.join(f'{count} {name}' for name, count in labels.items() if count)}"


def _read(path: Path, labels: Path | None) -> tuple[list[Sample], list[Label]]:
    """Return the samples of a file or report, and people's labels of their contexts."""
    report = find_report(path) if is_report(path) else None
    samples = list(read_samples(path) if report is None else report.samples())
    return samples, labels_in(samples, report, None if labels is None else LabelFile(labels).passages())
