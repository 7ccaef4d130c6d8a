"""One evaluation on many cores or machines: parts and their merge, engines, a shared ledger, and files at URLs."""

from pathlib import Path

from germane.addons import Addon
from germane.flags import DATA, OUTPUT, Flag, borrowed

_HERE = "germane.addons.cluster"

ADDON = Addon(
    about="One evaluation on many cores or machines: parts, engines, a ledger in PostgreSQL, files at URLs.",
    verbs={
        "merge": (
            f"{_HERE}.merging:merge",
            "Join the reports of `germane run --part` into one, equal to the report of an undivided run.",
        )
    },
    parts={"part": f"{_HERE}.merging:Share"},
    engines=dict.fromkeys(("processes", "dask"), f"{_HERE}.running:run_in_parts"),
    stores=dict.fromkeys(("postgresql", "postgres"), f"{_HERE}.postgres:PostgresLedger"),
    urls={name: f"{_HERE}.remote:{name}" for name in ("check_store", "fetched", "is_there", "put", "scratch")},
    flags=[
        Flag("--part", "run", DATA, "Run part I of N, e.g. 1/16; `germane merge` joins the reports of all parts.", value="I/N", holds="part"),
        Flag("--engine", "run", DATA, "Run all parts in parallel, in local processes (processes:8) or on Dask (dask[:ADDRESS]).", value="ENGINE", holds="part"),
        Flag("DIR...", "merge", DATA, "Read the report folders of all parts, written by `germane run --part 3/16 -o DIR`.", Path, name="folders", at_url="kept"),
        Flag("-o --output", "merge", OUTPUT, "Write the report to a new folder, and also to files (.html .json .md ...); repeatable.", Path, value="PATH", many=True, required=True, at_url="kept"),
        Flag("--force", "merge", OUTPUT, "Overwrite the report of another evaluation in the -o folder.", bool),
        *borrowed("merge", "--json", "--verbose", "--quiet"),
    ],
)  # fmt: skip
