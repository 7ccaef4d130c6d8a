"""`germane measures`: every measure with its formula, needs, cost and source."""

from __future__ import annotations

from germane.cli.values import print_document, print_lines


def measures(name: str | None, *, json: bool) -> None:
    """List every measure: formula, what it needs, what it costs in judge calls, where it comes from."""
    from germane.measures import Measure  # noqa: F401 - importing them all is what defines them
    from germane.measures.declaration import install_all, named
    from germane.measures.explaining import as_json, listing
    from germane.measures.measure import definitions

    install_all()
    chosen = definitions() if name is None else (named(name, lenient=True).definition,)
    if json:
        print_document([as_json(definition) for definition in chosen])
    else:
        value = chosen[0]
        print_lines(listing(chosen) if name is None else f"{value.heading}  {value.described()}")
