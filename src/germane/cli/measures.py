"""`germane measures`: every measure with its formula, needs, cost and source."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from germane.cli.options import Text


def measures(
    name: Annotated[
        Text, typer.Argument(metavar="[MEASURE]", help="One measure in full; also FILE.py:NAME.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every measure: formula, what it needs, what it costs in judge calls, where it comes from."""
    from germane.measures import Measure  # noqa: F401 - importing them all is what defines them
    from germane.measures.declaration import install_all, named
    from germane.measures.explaining import as_json, listing
    from germane.measures.measure import definitions

    install_all()
    chosen = definitions() if name is None else (named(name, lenient=True).definition,)
    if json:
        print(jsonlib.dumps([as_json(definition) for definition in chosen], ensure_ascii=False, indent=1))
    else:
        one = chosen[0]
        print(listing(chosen) if name is None else f"{one.heading}  {one.described()}")
