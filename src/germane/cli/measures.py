"""`germane measures`: list all measures, or describe one."""

from __future__ import annotations

from germane.cli.output import print_document, print_lines
from germane.measures import Measure  # noqa: F401 - importing the package defines all measures
from germane.measures.declaration import find_measure, install
from germane.measures.explaining import as_json, described, listing
from germane.measures.measure import definitions


def measures(name: str | None, *, json: bool) -> None:
    """List all measures, or explain one: formula, needs, judge calls, source."""
    install()
    chosen = definitions() if name is None else (find_measure(name, lenient=True).definition,)
    if json:
        print_document([as_json(definition) for definition in chosen])
    else:
        value = chosen[0]
        print_lines(listing(chosen) if name is None else described(value))
