"""The options of `germane run`: how each is written, and what its help says."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated

import typer


def _finite(value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not possible; write a number, or leave the option out")
    return value


Paths = Annotated[
    list[str] | None,
    typer.Argument(
        help="Eval files (YAML), samples (JSONL, JSON, CSV, Parquet), folders; - is JSONL on stdin."
    ),
]
Measure = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--measure",
        "--metric",
        help="Measures, separated by spaces; repeatable. Replaces a file's own.",
    ),
]
Judge = Annotated[
    list[str] | None,
    typer.Option(
        "--judge", help="labels | gold | lexical | openai:gpt-4o-mini | ...; several are a panel and vote."
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="People's labels, for --judge labels and labels=human: .jsonl, .csv, TREC qrels, or a report.",
    ),
]
Repeat = Annotated[
    int, typer.Option("--repeat", help="Ask each judge so many times; the answers vote.", min=1)
]
Vote = Annotated[str, typer.Option("--vote", help="How a panel votes: majority | mean.")]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint for the judge.")
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="NAME=VALUE for the judge's endpoint; repeatable, written down nowhere."),
]
ModelParameter = Annotated[
    list[str] | None,
    typer.Option("--model-parameter", help="NAME=VALUE in the request, e.g. seed=7; repeatable."),
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", help="The model's; 0.1 without this.", min=0.0, callback=_finite),
]
Rpm = Annotated[
    float | None,
    typer.Option("--rpm", help="Judge requests a minute at most, in all.", min=0.01, callback=_finite),
]
Tpm = Annotated[
    float | None,
    typer.Option("--tpm", help="Judge tokens a minute at most, in all.", min=1.0, callback=_finite),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", help="Seconds that one answer may take; 120 without this.", min=0.1, callback=_finite
    ),
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        help="A report file (.html .json .jsonl .csv .md .txt .xml .svg) or the report folder; repeatable.",
    ),
]
Target = Annotated[
    list[str] | None, typer.Option("--target", help="The system to ask; several are compared.")
]
Targets = Annotated[Path | None, typer.Option("--targets", help="The targets file.")]
Trials = Annotated[
    int | None, typer.Option("--trials", help="How often each target is asked each case.", min=1)
]
Untrusted = Annotated[
    bool, typer.Option("--untrusted", help="Refuse everything that an eval file would run or send.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="NAME", help="With --untrusted: a grader or target that may run; repeatable."
    ),
]
Against = Annotated[
    str | None,
    typer.Option("--against", help="Relevance to: auto | query | reference | response | criterion."),
]
Scale = Annotated[str | None, typer.Option("--scale", help="graded (0-3) | binary.")]
Rubric = Annotated[
    str | None, typer.Option("--rubric", help="What the grades mean: trec (UMBRELA) | usefulness.")
]
Reasoning = Annotated[
    str | None,
    typer.Option("--reasoning", help="How much the model may reason: off | low | ..., where it takes it."),
]
Reading = Annotated[str, typer.Option("--reading", help="fused: one request a text; single: one a question.")]
Batch = Annotated[int, typer.Option("--batch", help="Passages of one query in one request.", min=1)]
Prompt = Annotated[
    list[str] | None, typer.Option("--prompt", help="KIND=FILE: your own wording; repeatable.")
]
FailUnder = Annotated[
    list[str] | None, typer.Option("--fail-under", help="A gate, e.g. 'mean(nDCG@10)>=0.7'; repeatable.")
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="REPORT",
        help="For gates on change(...): a report folder, a --json document, or a folder of reports (the latest).",
    ),
]
FailOnRegression = Annotated[
    bool,
    typer.Option(
        "--fail-on-regression", help="With --baseline: exit 1 where a measure is worse for certain."
    ),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="TAG", help="Slices: a tag, `tags`, or a field of the metadata.")
]
MaxUnmeasured = Annotated[
    float, typer.Option("--max-unmeasured", help="Share of scores that may be missing.", min=0.0, max=1.0)
]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="REPORT", help="Continue this evaluation.")]
RetryErrors = Annotated[
    bool, typer.Option("--retry-errors", help="With --resume: ask again what the judge failed at.")
]
Ledger = Annotated[str | None, typer.Option("--ledger", help="Where answers are kept.")]
Replay = Annotated[
    str | None,
    typer.Option(
        "--replay",
        metavar="LEDGER",
        help="Ask no judge: answers come from this ledger, or an export of one; a missing one is exit code 3.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="USD",
        help="Stop when the judge would cost more; can be continued.",
        min=0.0,
        callback=_finite,
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls", help="Stop before more questions are put to the judge; can be continued.", min=0
    ),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price", metavar="IN/OUT", help="US dollars for a million tokens of the judge, e.g. 0.15/0.60."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite the report of another evaluation in the folder of -o.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the shared ledger.")]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", help="Judge requests in flight at most, in all.", min=1)
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count calls, tokens and price; ask neither judge nor target.")
]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", help="query=Query,contexts=Context: names in the data.")
]
DocId = Annotated[
    str | None, typer.Option("--doc-id", metavar="REGEX", help="The document id inside a chunk id.")
]
Only = Annotated[str | None, typer.Option("--filter", metavar="GLOB", help="Cases whose id or tag matches.")]
Limit = Annotated[int | None, typer.Option("--limit", help="The first N cases.", min=1)]
Sample = Annotated[int | None, typer.Option("--sample", help="N cases drawn at random.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="For --sample.")]
Json = Annotated[bool, typer.Option("--json", help="Print the JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only what failed.")]
