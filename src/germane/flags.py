"""The table of every option and argument of the command line.

It defines what each verb (such as `run`) accepts, its `--help`, the settings of germane.toml, the options of
a `Spec`, the arguments of a model judge, and docs/reference/commands.md and config.md. To add a flag, add an
entry here and use its value: as a parameter of the verb's function, for `run` as an attribute of the `Spec`,
for a judge as a parameter of `LLMJudge`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from germane import addons
from germane.errors import InputError

__all__ = ["CI", "DATA", "JUDGE", "MEASURES", "MONEY", "OUTPUT", "Flag", "borrowed", "options", "parameters"]

DATA, JUDGE, MEASURES, MONEY, OUTPUT, CI = "Data", "Judge", "Measures", "Money", "Output", "CI"
GROUPS = (DATA, JUDGE, MEASURES, MONEY, OUTPUT, CI)
"""The headings of `--help`, in order."""


class Flag(NamedTuple):
    """One option or argument of the command line.

    Attributes:
        spelling: The flag as typed: `-m --measure --metric`. A positional argument has a name without dashes:
            `REPORT`, `[OTHER]` if it is optional, `RUN...` if it may be repeated, `[PATH...]` for both.
        verbs: The verbs that accept the flag, separated by commas.
        group: The flag's heading in `--help`.
        help: The help text; `also` adds to it for single verbs.
        kind: The type of the value; `bool` means a switch without a value.
        name: The name of the parameter of the verb's function. Default: the long spelling.
        value: The name of the value in `--help`. Default: the choices, or the long spelling in capitals.
        many: Whether the flag may be repeated; its value is then a list.
        least, most: The smallest and largest allowed number.
        setting: The types that the setting `name` in germane.toml may have; empty if there is no such
            setting.
        in_file: Whether an eval file may set the option.
        read: A function that converts the strings as typed; it is called with the strings and the flag.
            Default: the strings are the value.
        judge: The name of the parameter of a model judge that gets the value.
        holds: Where the value applies: in the whole "evaluation"; in one "part" or session of an evaluation,
            if the value does not change the answers; or in one "command".
        unset: Whether the value is None if the flag is not given, because a file, a report or the config may
            set the value.
        at_url: What is done with a URL given as a path. "copied": it is copied to a local file. "kept": the
            verb opens it. "refused": it is an error, because the verb writes to the path.
        also: Maps a verb to an addition to the help text.
    """

    spelling: str
    verbs: str
    group: str
    help: str
    kind: type = str
    name: str = ""
    value: str = ""
    many: bool = False
    required: bool = False
    default: Any = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    setting: tuple[type, ...] = ()
    in_file: bool = False
    read: Callable[[Any, str], Any] | None = None
    judge: str = ""
    holds: Literal["evaluation", "part", "command"] = "evaluation"
    unset: bool = False
    at_url: Literal["copied", "kept", "refused"] = "copied"
    also: dict[str, str] | None = None

    @property
    def argument(self) -> bool:
        """True for a positional argument."""
        return not self.spelling.startswith("-")

    @property
    def several(self) -> bool:
        """True if the value is a list, because the flag may be repeated."""
        return self.many or "..." in self.spelling

    @property
    def absent(self) -> Any:
        """The value of the option in a `Spec` if the flag is not given."""
        if self.default is None and self.kind is bool:
            return False
        return () if self.default is None and self.several and self.read is not words else self.default

    @property
    def spellings(self) -> list[str]:
        """All spellings of an option, such as `-m` and `--measure`; empty for a positional argument."""
        return [] if self.argument else self.spelling.split()

    @property
    def long(self) -> str:
        """The first spelling that begins with two dashes, else the short spelling.

        For a positional argument it is the whole spelling.
        """
        return next((spelling for spelling in self.spellings if spelling.startswith("--")), self.spelling)

    @property
    def metavar(self) -> str:
        """The name of the flag's value in `--help`."""
        if self.argument:
            return self.spelling.strip("[].")
        return self.value or "|".join(self.choices) or self.long.strip("-").upper()

    @property
    def parameter(self) -> str:
        """The name of the parameter of the verb's function that receives the value."""
        return self.name or self.long.strip("-[].").replace("-", "_").lower()

    def allows(self, value: Any) -> bool:
        """Return True if the value is one of the choices or, for a number, finite and in range."""
        if self.choices or self.kind not in {int, float}:
            return not self.choices or value in self.choices
        least, most = -inf if self.least is None else self.least, inf if self.most is None else self.most
        return bool(least <= value <= most and abs(value) < inf)

    @property
    def expected(self) -> str:
        """The allowed values in words, such as `an integer >= 1`."""
        words = " or ".join(self.choices) or {int: "an integer", float: "a number"}.get(self.kind, "text")
        if self.most is not None:
            return f"{words} from {self.least or 0:g} to {self.most:g}"
        return words if self.least is None else f"{words} >= {self.least:g}"

    def help_for(self, verb: str) -> str:
        """Return the flag's help text for the verb `verb`, followed by the default value."""
        text = "" if self.default is None else f"Default: {self.default}."
        return " ".join(filter(None, (self.help, (self.also or {}).get(verb, ""), text)))


def _named(text: str) -> tuple[str, str]:
    """Split NAME=VALUE into name and value; return ("", "") if the text has another form."""
    name, _, value = (piece.strip() for piece in text.partition("="))
    return (name, value) if name and value else ("", "")


def pairs(values: Iterable[str], flag: str, example: str) -> tuple[tuple[str, str], ...]:
    """Return the (name, value) pairs in a flag's values, such as `a=b,c=d`.

    `example` is shown in errors. Raises InputError for another form, or if a name occurs twice.
    """
    result: dict[str, str] = {}
    for entry in (entry for text in values for entry in text.split(",")):
        name, value = _named(entry)
        if not name:
            raise InputError(f"{flag} {entry!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        if name in result:
            raise InputError(f"{flag} sets {name} twice", fix=f"write {name}=... once")
        result[name] = value
    return tuple(result.items())


def headers(values: Iterable[str], flag: str) -> tuple[tuple[str, str], ...]:
    """Return the values of `--header NAME=VALUE` as (name, value) pairs.

    Raises InputError for an invalid header; the message does not show the value, which may be an API key.
    """
    result = dict(map(_named, values))
    for name, value in result.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise InputError(f"a value of {flag} is not NAME=VALUE", fix=f"write {flag} x-team=search")
        if not value.isprintable():
            problem = f"the value of {flag} {name} holds control characters"
            raise InputError(problem, fix="remove line breaks and other control characters from the value")
    return tuple(result.items())


def parameters(values: Iterable[str], flag: str, example: str) -> tuple[tuple[str, Any], ...]:
    """Return the values of a flag, written as NAME=VALUE, as (name, value) pairs.

    A value is parsed if it is JSON, and is otherwise a string. `example` is shown in errors. Raises
    InputError for another form.
    """
    result: dict[str, Any] = {}
    for text in values:
        name, value = _named(text)
        if not name:
            raise InputError(f"{flag} {text!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        try:
            result[name] = json.loads(value)
        except ValueError:
            result[name] = value
    return tuple(result.items())


def prices(value: str, flag: str) -> tuple[float, float]:
    """Parse a value such as `0.15/0.60`; return the prices of a million input and output tokens.

    Raises InputError for another form.
    """
    try:
        first, second = map(float, value.split("/"))
    except ValueError:
        first = second = -1.0
    if not (0 <= first < float("inf") and 0 <= second < float("inf")):
        fix = f"write dollars per million tokens in/out: {flag} 0.15/0.60"
        raise InputError(f"{flag} {value!r} is not a price", fix=fix)
    return first, second


def words(values: Iterable[str], _flag: str) -> str:
    """Return the values of a repeated flag as one string, separated by spaces."""
    return " ".join(values)


_FORMATS = ("trec", "tsv", "csv", "jsonl", "json", "parquet")

FLAGS = (
    # what is read: samples, reports, labels
    Flag("[PATH...]", "run", DATA, "Read eval files (YAML), samples (JSONL, JSON, CSV, Parquet) or folders of them; - reads JSONL from stdin. Default: the folder evals.", name="paths"),
    Flag("RUN...", "rank", DATA, "Read ranked results, a file per system; - reads stdin.", Path, name="runs"),
    Flag("PATH...", "stages", DATA, "Read a report folder or a file of samples; with --qrels, read one run file per retrieval stage, first stage first.", Path, name="paths"),
    Flag("PATH", "labels check,labels move", DATA, "Read the samples in a file, a BEIR folder or a report folder.", Path),
    Flag("--corpus", "validate", DATA, "Read the searched documents from a file with one row per document, or from a folder. Default: the corpus in the BEIR folder, if one is given.", Path, value="PATH"),
    Flag("--corpus", "labels check,labels move", DATA, "Read the documents from a file with one row per document (id, text), or from a folder.", Path, value="PATH", required=True),
    Flag("[REPORT]", "label", DATA, "Label the samples of this report folder. Default: the latest report in germane-reports.", Path, name="folder", at_url="refused"),
    Flag("[REPORT...]", "audit", DATA, "Read these report folders; if there are several, their judges are compared on the same labels. Default: the latest report in germane-reports.", Path, name="folders"),
    Flag("[REPORT]", "score", DATA, "Read this report folder. Default: the latest report in germane-reports.", Path, name="folder"),
    Flag("[REPORT]", "explain", DATA, "Read this report folder. Default: the latest report in germane-reports.", name="named"),
    Flag("[REPORT]", "diagnose,report", DATA, "Read this report folder, or the latest report in a folder of reports. Default: germane-reports.",
         Path, name="folder"),
    Flag("[REPORT...]", "compare", DATA, "Compare report folders, --json documents, result files of other programs, or the latest report in each folder of reports. If only one is given, its systems are compared. Default: the two latest reports in germane-reports.", Path, name="reports"),
    Flag("[QUERY]", "explain", DATA,
         "Explain the sample with this id or this text in its query. Default: list the worst samples."),
    Flag("[MEASURE]", "explain", MEASURES, "Explain this measure. Default: all measures."),
    Flag("[MEASURE]", "measures", MEASURES,
         "Describe this measure in full, e.g. nDCG@10 or FILE.py:NAME. Default: list all measures.", name="name"),
    Flag("[DIR]", "init", DATA, "Write the files to this folder.", Path, name="folder"),
    Flag("[PATH...]", "validate", DATA, "Check these eval files or folders of them, targets.yaml, samples, or queries, gold and runs (JSONL, CSV, TREC or a BEIR folder).", Path, name="paths"),
    Flag("FILE...", "ledger import", DATA,
         "Store the answers of these files in the ledger: files of `germane ledger export`, or a report's judgements.jsonl or .parquet.", Path, name="files"),
    Flag("--target", "run", DATA,
         "Query the system with this name in the targets file; repeatable.",
         name="targets", value="NAME", many=True),
    Flag("--targets", "run", DATA, "Read the systems from this targets file. Default: targets.yaml in the data's folder or the nearest folder above.", Path, name="targets_file", value="FILE", at_url="kept"),
    Flag("--trials", "run", DATA, "Query each target N times per case.", int, value="N", least=1),
    Flag("--untrusted", "run", DATA, "Do not trust the eval files: report an error if one runs a command, sends a request, reads an environment variable, or reads a file outside its repository.", bool),
    Flag("--qrels", "rank", DATA, "Read gold labels from a file of graded documents or from a BEIR folder.", Path, value="GOLD", required=True),
    Flag("--qrels", "stages", DATA, "Read gold labels for run files from a file of graded documents or from a BEIR folder.", Path, value="GOLD"),
    Flag("--qrels", "validate", DATA, "Read gold labels for queries or run files from a file of graded documents or from a BEIR folder.", Path, value="GOLD"),
    Flag("--format", "rank,stages", DATA, f"Read the run files in this format ({', '.join(_FORMATS)}). Default: detected.", value="FORMAT", choices=_FORMATS),
    Flag("--qrels-format", "rank,stages", DATA, f"Read the gold labels in this format ({', '.join(_FORMATS)}). Default: detected.", value="FORMAT", choices=_FORMATS),
    Flag("--columns", "run,rank,stages", DATA, "Read each field NAME from the column COLUMN; separate several pairs by commas; repeatable, e.g.", value="NAME=COLUMN", many=True,
         also={"run": "query=Query,contexts=Context.", "rank": "query=Query,doc=Passage,score=Sim,grade=Label.",
               "stages": "query=Query,doc=Passage,score=Sim,grade=Label."}, read=partial(pairs, example="query=Query")),
    Flag("--doc-id", "run,rank,stages", DATA, "Extract the document's id from a chunk's id with this regular expression, e.g. '^[^#]+'.", value="REGEX", in_file=True),
    Flag("--duplicates", "rank,stages", DATA, "If a query lists a document twice: report an error, or count its best rank (first).", default="error", choices=("error", "first")),
    Flag("--missing", "rank", DATA, "If a query has gold but no results: score it as 0 (zero), or leave it out (skip).", default="zero", choices=("zero", "skip")),
    Flag("--on-bad-row", "rank", DATA, "If a row cannot be read: report an error, or skip it with a note.", default="error", choices=("error", "skip")),
    Flag("--filter", "run", DATA, "Use only cases with an id or tag that matches this pattern (* and ? as in file names).", name="wanted", value="GLOB"),
    Flag("--limit", "run", DATA, "Use only the first N cases.", int, value="N", least=1),
    Flag("--sample", "run", DATA, "Use only N cases, drawn at random.", int, value="N", least=1),
    Flag("--until", "run", DATA, "Judge cases in random order until the interval of every judged measure is at most +-WIDTH, e.g. 0.02.", float, value="WIDTH", least=0.0001),
    Flag("--seed", "run,compare,label", DATA, "Set the random seed for", int, value="N", default=0, least=0,
         also={"run": "--sample and --until.", "compare": "splitting the queries: the best system is chosen on one half and scored on the other.", "label": "drawing the items to label."}),
    Flag("--systems", "compare", DATA, "Compare these systems within one report, or use this system from each report; repeatable.", value="NAME", many=True),
    Flag("--skill", "init", DATA, "Write a skill file for coding agents (SKILL.md) instead of the example.", bool),
    Flag("--schema", "validate", DATA, "Print the JSON Schema of eval files, for editors.", bool),
    # the judge
    Flag("--judge", "run", JUDGE, "Use this judge: people's labels (labels), gold labels (gold), word overlap (lexical) or a model, e.g. openai:gpt-4o-mini; several judges vote as a panel.", many=True, setting=(str, list), in_file=True, read=words),
    Flag("--labels", "run", JUDGE, "Read people's labels, for --judge labels and labels=human, from a .jsonl or .csv file, TREC qrels or a report.", Path, value="FILE", at_url="kept"),
    Flag("--repeat", "run", JUDGE, "Ask each judge each question N times and use the majority answer.", int, value="N", default=1, least=1, setting=(int,), in_file=True),
    Flag("--base-url", "run", JUDGE, "Send the judge's requests to this OpenAI-compatible endpoint.", value="URL", judge="base_url", holds="part"),
    Flag("--header", "run", JUDGE, "Send this header to the judge's endpoint; it is never stored; repeatable.", name="headers", value="NAME=VALUE", many=True, read=headers, judge="headers", holds="command"),
    Flag("--model-parameter", "run", JUDGE, "Add this parameter to the judge's requests, e.g. seed=7; repeatable.", name="parameters", value="NAME=VALUE", many=True, read=partial(parameters, example="seed=7"), judge="parameters"),
    Flag("--temperature", "run", JUDGE, "Set the judge's sampling temperature. Default: 0.1.", float, value="T", least=0, judge="temperature"),
    Flag("--rpm", "run", JUDGE, "Send at most N judge requests per minute.", float, value="N", least=0.01, holds="part"),
    Flag("--tpm", "run", JUDGE, "Use at most N tokens per minute.", float, value="N", least=1, holds="part"),
    Flag("--timeout", "run", JUDGE, "Wait at most this many seconds for an answer of the judge. Default: 120.", float, value="SECONDS", least=0.1, holds="part"),
    Flag("-j --jobs", "run", JUDGE, "Send at most N judge requests at the same time. Default: as many as the endpoint can handle, up to 64.", int, value="N", least=1, setting=(int,), judge="concurrency", holds="part"),
    Flag("--against", "run", JUDGE, "Judge relevance against one of: auto (the query, and the reference if there is one), query, reference, response or criterion.", value="TEXT", setting=(str,), in_file=True),
    Flag("--scale", "run,label", JUDGE, "Use graded (0-3) or binary grades.", setting=(str,), choices=("graded", "binary"), also={"label": "Default: the judge's scale."}),
    Flag("--rubric", "run", JUDGE, "Grade passages by `trec` (the criteria of TREC and UMBRELA) or `usefulness` (for writing the answer).", setting=(str,)),
    Flag("--reading", "run", JUDGE, "Ask all questions about the same passage or response in one request (fused), or send one request per question (single).", default="fused", setting=(str,), in_file=True, judge="reading", choices=("fused", "single")),
    Flag("--batch", "run", JUDGE, "Ask about up to N passages of a query in one request.", int, value="N", default=1, least=1, setting=(int,), in_file=True, judge="batch"),
    Flag("--prompt", "run", JUDGE, "Read your own prompt for a kind of question from a file, e.g. relevance=my.md; repeatable.", name="prompts", value="KIND=FILE", many=True, read=partial(pairs, example="relevance=my.md"), judge="prompts"),
    Flag("--across-judges", "compare", JUDGE, "Allow reports with different judges.", bool),
    Flag("--who", "label", JUDGE, "Store labels under this name. Default: the user's name.", value="NAME"),
    Flag("--budget", "label", JUDGE,
         "Ask for at most N labels. Default: label everything.", int, value="N", least=1),
    Flag("--design", "label", JUDGE, "Label some passages of each query (passages), or all passages of some queries (queries). Default: what the report's measures need.", choices=("passages", "queries")),
    Flag("--queue", "label", JUDGE, "Ask about the items in random order, or about doubtful verdicts first (targeted).", default="random", choices=("random", "targeted")),
    Flag("--kind", "label", JUDGE, "Label the relevance of passages, the support of claims or the sufficiency of contexts. Default: what the report's measures need.",
         choices=("relevance", "support", "sufficiency")),
    Flag("--guideline", "label", JUDGE, "Read instructions for labellers from this file; the key ? shows them, and their hash is stored with the labels.", Path, value="FILE"),
    Flag("--again", "audit", JUDGE, "Ask the judge N stored questions again, to detect a change of the judge.", int, value="N", least=1),
    Flag("--judge", "audit", JUDGE,
         "With --again: use this judge, given with its full URL. Needed if the URL contains a key, since reports do not store keys.", many=True, read=words),
    Flag("--base-url", "audit", JUDGE, "With --again: send the requests to this endpoint. Default: the report's endpoint, to which no API key is sent.", value="URL"),
    Flag("--header", "audit", JUDGE,
         "With --again: send this header to the judge's endpoint; repeatable.",
         name="headers", value="NAME=VALUE", many=True, read=headers),
    Flag("-j --jobs", "audit", JUDGE,
         "With --again: send at most N requests at the same time.", int, value="N", least=1),
    Flag("--max-cost", "audit", MONEY, "With --again: stop before the calls cost more than this.", float, value="USD", least=0),
    Flag("--price", "audit", MONEY, "With --again: set the judge's price in US dollars per million input/output tokens, e.g. 0.15/0.60.", value="IN/OUT", read=prices),
    Flag("--seed", "audit", DATA, "With --again: set the random seed.", int, value="N", default=0, least=0),
    Flag("--gold", "audit", JUDGE, "List documents graded differently by judges and gold labels.", bool),
    Flag("--all", "audit", JUDGE, "Also use labels of items not drawn at random.", bool, name="every"),
    # measures
    Flag("-m --measure --metric", "run,rank,score,compare", MEASURES, "Use these measures, separated by spaces; repeatable.", name="measures", many=True,
         setting=(list, str),
         also={"run": "Replaces eval files' measures.", "rank": "Default: nDCG@10 AP RR P@10 R@10 Judged@10.",
               "score": "Default: none; only the gates are decided again.", "compare": "Default: all measures that the reports share."}),
    Flag("-m --measure --metric", "diagnose", MEASURES, "Diagnose this ranked measure. Default: the report's first ranked measure."),
    Flag("--by", "run,score,compare,report", MEASURES, "Also show the mean of each slice: by a tag, by all tags (`tags`) or by a metadata field.", value="TAG", setting=(str,), in_file=True),
    Flag("--primary", "compare", MEASURES, "Decide the outcome by these measures, with p-values corrected by Holm. Default: all compared measures.", value="MEASURE", many=True),
    Flag("--higher-is-better", "compare", MEASURES, "Treat higher values of M, a measure in another program's file, as better (M=no: lower values); repeatable.", value="M", many=True),
    Flag("--range", "compare", MEASURES, "Set the lowest and the highest possible value of M, a measure in another program's file, e.g. helpfulness=1..5; repeatable.",
         name="ranges", value="M=LOW..HIGH", many=True),
    Flag("--margin", "compare", CI, "Accept a loss of up to LOSS in a measure, e.g. 'nDCG@10: 0.02'; repeatable.", value="'MEASURE: LOSS'", many=True),
    Flag("-k", "stages", MEASURES, "Cut each list off after rank K. Default: no cut-off, but 10 for samples that have no stages and more than 10 contexts.", int, value="K", least=1),
    Flag("--rel", "stages", MEASURES, "Count documents with this grade or a higher one as relevant.", int, value="GRADE", default=1, least=1),
    # requests, their cost, and the ledger
    Flag("--dry-run", "run", MONEY, "Print the expected judge calls, tokens and price; make no calls.", bool, holds="command"),
    Flag("--max-cost", "run", MONEY, "Stop before the judge costs more than this; --resume continues.", float, value="USD", least=0, holds="part"),
    Flag("--max-calls", "run", MONEY, "Stop after N judge calls in this session; --resume continues. One call is one question; a request may contain several.", int, value="N", least=0, holds="part"),
    Flag("--price", "run", MONEY, "Set the judge's price in US dollars per million input/output tokens, e.g. 0.15/0.60.", value="IN/OUT", read=prices, holds="part"),
    Flag("--resume", "run", MONEY, "Continue the evaluation in this report folder.", Path, value="REPORT", at_url="refused", holds="command"),
    Flag("--reask", "run", MONEY, "With --resume: continue with another judge, and ask it every question again.", bool, holds="command"),
    Flag("--ledger", "run,ledger stats,ledger export,ledger import", MONEY,
         "Use this ledger, a file or database of judges' answers. Default: .germane/ledger.sqlite in the project folder.", value="PLACE", setting=(str,), holds="part"),
    Flag("--replay", "run", MONEY, "Make no judge calls: read all answers from this ledger or exported file; exit 3 if an answer is missing.", value="LEDGER"),
    Flag("--no-cache", "run", MONEY, "Neither read nor write the shared ledger.", bool),
    Flag("-o --output", "run", OUTPUT, "Write the report to a file (.html .json .jsonl .csv .md .txt .xml .svg .png .parquet) or to a folder; repeatable.", Path, value="PATH", many=True, at_url="kept"),
    Flag("-o --output", "rank", OUTPUT, "Write each query's scores to a .csv or .parquet file, or the means to a .md or .tex file; repeatable.", Path, value="FILE", many=True, at_url="refused"),
    Flag("-o --output", "score", OUTPUT, "Write the report to a file or to a new folder; repeatable.", Path, value="PATH", many=True, at_url="refused"),
    Flag("-o --output", "report,compare", OUTPUT, "Write to this file; repeatable. The extension sets the format:", Path, value="FILE", many=True,
         also={"report": ".html .json .jsonl .csv .md .txt .xml .svg .png .parquet, and formats of add-ons.", "compare": ".html .json .csv .md .tex .txt."}, at_url="refused"),
    Flag("-o --output", "audit,ledger export", OUTPUT, "Write to this file.", Path, value="FILE",
         also={"audit": "Format: .md or .txt.", "ledger export": "Default: stdout."}, at_url="refused"),
    Flag("-o --output", "labels move", OUTPUT, "Write the samples with the new gold to this .jsonl file.", Path, value="FILE", required=True, at_url="refused"),
    Flag("--force", "run,init", OUTPUT, "Overwrite", bool,
         also={"run": "the report of another evaluation in the -o folder.", "init": "existing files."}, holds="command"),
    Flag("--json", "run,rank,score,compare,stages,diagnose,label,report,explain,audit,labels check,labels move,measures,validate,ledger stats", OUTPUT,
         "Print one JSON document on stdout.", bool, holds="command"),
    Flag("-v --verbose", "run,score,compare", OUTPUT, "Print all notes. Default: the first three, and all that change the meaning of a number.", bool, holds="command"),
    Flag("-q --quiet", "run", OUTPUT, "Print only failures, and notes that change the meaning of a number.", bool, holds="command"),
    Flag("-q --per-query", "rank", OUTPUT, "Also print the scores of each query.", bool),
    Flag("-q --per-query", "stages", OUTPUT, "Print every relevant document of each query.", bool),
    Flag("--trec", "rank", OUTPUT, "Print in trec_eval's format: measure, query, value.", bool),
    Flag("--import", "label", OUTPUT, "Read labels from a file (.jsonl, .json, .csv or TREC qrels) and add them to the report.", Path, name="take", value="FILE"),
    Flag("--export", "label", OUTPUT, "Write the report's labels to a file: .jsonl, .csv or TREC qrels.", Path, name="give", value="FILE", at_url="refused"),
    # gates
    Flag("--fail-under", "run,rank,score", CI, "Exit 1 if this gate (a condition) fails, e.g. 'lower(nDCG@10)>=0.7'; repeatable.", name="gates", value="GATE", many=True, setting=(list, str)),
    Flag("--baseline", "run,score", CI, "Compare with this report in change(...) gates: a report folder, a --json document, or the latest report in a folder of reports.", Path, value="REPORT", at_url="kept", holds="part"),
    Flag("--baseline", "report", OUTPUT, "Compare with this report in .html, .md, .svg and .png files.", Path, value="REPORT"),
    Flag("--allow-stand-in", "run,score,compare", CI, "Decide gates although the judge was lexical, only a stand-in for a model. Default: such gates are undecided, exit 3.", bool),
    Flag("--fail-on-regression", "run,score,compare", CI, "Exit 1 if a measure got worse: the whole interval of its change is a loss, and p (Holm) is at most 0.05.", bool, also={"run": "Needs --baseline.", "score": "Needs --baseline."}),
    Flag("--max-unmeasured", "run", CI, "Exit 3 if more than this share (0 to 1) of the scores could not be computed.", float, value="SHARE", default=0.05, least=0, most=1, setting=(float, int)),
)  # fmt: skip

SETTINGS = {flag.parameter: flag for flag in FLAGS if flag.setting}
"""Maps the name of each setting in germane.toml to its flag."""


@cache
def options() -> dict[str, Flag]:
    """Return a mapping from the names of options in a `Spec` to the flags of `run`.

    It includes the flags of add-ons, but not `--output`.
    """
    return {flag.parameter: flag for flag in flags_of("run") if flag.parameter != "output"}


def flags_of(verb: str, *, installed: bool = False) -> list[Flag]:
    """Return the flags of a verb: its arguments in order, and its options.

    If `installed` is True, installed packages are also searched for add-ons that declare flags.
    """
    added = chain.from_iterable(addon.flags for addon in addons.declared(installed=installed))
    flags = [flag for flag in (*FLAGS, *added) if verb in flag.verbs.split(",")]
    if installed and verb == "run":
        options().update({flag.parameter: flag for flag in flags if flag.parameter != "output"})
    return flags


def borrowed(verb: str, *spellings: str, unset: bool = False) -> list[Flag]:
    """Return copies of flags of `run`, by long spelling, for an add-on's verb; `unset` is as in `Flag`."""
    copies = []
    for flag in FLAGS:
        if "run" in flag.verbs.split(",") and flag.long in spellings:
            text = f"{flag.help} {(flag.also or {}).get('run', '')}".rstrip()
            copies.append(flag._replace(verbs=verb, help=text, setting=(), also=None, unset=unset))
    return copies
