"""The commands `germane ledger stats`, `export` and `import`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from germane.clean import clean_json, counted
from germane.cli.output import print_document, print_lines, say
from germane.encoding import encode
from germane.errors import InputError
from germane.evaluation.spec import ledger_address
from germane.ledger.jsonl import import_rows, readable
from germane.ledger.sqlite import files_of, open_at
from germane.ledger.store import SELECT, from_row
from germane.samples.files import whole_file
from germane.show.table import Table
from germane.tables.judgements import dump_judgement


def stats(*, ledger: str | None, json: bool) -> None:
    """Count the answers of each judge and kind, their cost, and the size and age of the ledger."""
    with closing(open_at(ledger_address(ledger), read_only=True)) as opened:
        result = opened.stats()
    if json:
        print_document(result)
        return
    size = f"{counted(result['judgements'], 'judgement')}, {result['bytes'] / 1e6:,.2f} MB, format {result['format']}"
    print_lines(f"{result['ledger']}: {size}")
    table = Table(["judge", "kind", "answers", "tokens in", "tokens out", "cost"], "llr")
    for line in result["lines"]:
        counts = (f"{line[name]:,}" for name in ("judgements", "input_tokens", "output_tokens"))
        cost, unpriced = line["cost_usd"], line["unpriced"]
        more = f" and {unpriced:,} of unknown price" if unpriced else ""
        cost = f"${cost:.4f}{more}" if cost is not None else "price unknown" if unpriced else "-"
        table.add([line["judge"], line["kind"], *counts, cost])
    if result["lines"]:
        table.print(sys.stdout)


def export(*, output: Path | None, ledger: str | None) -> None:
    """Write all answers as JSON lines, in the format of a report's judgements.jsonl."""
    with closing(open_at(ledger_address(ledger), read_only=True)) as opened:
        rows = opened.rows(f"{SELECT} ORDER BY key", read=from_row)
        lines = (encode(dump_judgement(row)) + b"\n" for row in rows)
        if output is None:
            if sys.stdout is None:  # it was closed (`>&-`) before the start
                raise InputError("stdout is closed", fix="write -o FILE")
            sys.stdout.buffer.writelines(clean_json(line.decode()).encode() for line in lines)
            return
        if output.resolve() in files_of(Path(opened.place).resolve()):
            raise InputError(f"{output} is the file of the ledger", fix="name another file")
        with whole_file(output) as file:
            count = sum(bool(file.write(line)) for line in lines)
    say(f"wrote {counted(count, 'judgement')} to {output}")


def import_(files: Sequence[Path], *, ledger: str | None) -> None:
    """Read answers from JSON lines into the ledger. Existing answers stay; failed answers are left out."""
    readable(files)  # raises an error before a new ledger is created
    with closing(open_at(ledger_address(ledger))) as opened:
        for file in files:
            added, known, errors = import_rows(opened, file)
            say(f"{file}: {added:,} added, {known:,} known already, {counted(errors, 'error')} left out")
