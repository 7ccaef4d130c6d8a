"""Every option and argument of the command line, declared once.

From this table come what each verb takes, its `--help`, the settings of germane.toml and docs/reference/commands.md and
config.md. A new flag is one entry here and its use: a parameter of the verb's function, for `run` a field of `Options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

from germane import addons

__all__ = ["CI", "DATA", "JUDGE", "MEASURES", "MONEY", "OUTPUT", "Flag", "borrowed"]

DATA, JUDGE, MEASURES, MONEY, OUTPUT, CI = "Data", "Judge", "Measures", "Money", "Output", "CI"
GROUPS = (DATA, JUDGE, MEASURES, MONEY, OUTPUT, CI)
"""The headings of `--help`, in order."""


class Flag(NamedTuple):
    """One option or argument of the command line.

    Attributes:
        spelling: As it is typed: `-m --measure --metric`. An argument is a name for help without dashes: `REPORT`, `[OTHER]`
            where it may be left out, `RUN...` where it may be repeated, `[PATH...]` where both.
        verbs: The verbs that have it, separated by commas.
        group: Its heading in `--help`.
        help: What it does. `also` adds words for one verb.
        kind: The type of its value; `bool` is a switch.
        name: The parameter of the verb's function; without it that of the long spelling.
        value: What the value is called in `--help`; without it its choices, or the long spelling in capitals.
        many: Whether it may be given more than once: its value is then a list.
        required: Whether the verb does nothing without it.
        default: Its value where it is not given.
        least, most: The range of a number.
        choices: The only values that there are.
        setting: The types of value that the setting `name` of germane.toml may have; none = no setting.
        in_file: Whether an eval file may set it.
        at_url: What becomes of a path that is a URL: "copied" here and read, "kept" for the verb that reads or writes there, or
            "refused", as what a verb writes to.
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
    at_url: Literal["copied", "kept", "refused"] = "copied"
    also: dict[str, str] | None = None

    @property
    def argument(self) -> bool:
        """True if it is given by its place, not by name."""
        return not self.spelling.startswith("-")

    @property
    def spellings(self) -> list[str]:
        """`-m`, `--measure`, `--metric`; of an argument none."""
        return [] if self.argument else self.spelling.split()

    @property
    def long(self) -> str:
        """The first spelling with two dashes, else the only one; of an argument its name for help."""
        return next((spelling for spelling in self.spellings if spelling.startswith("--")), self.spelling)

    @property
    def metavar(self) -> str:
        """The name of its value in help."""
        if self.argument:
            return self.spelling.strip("[].")
        return self.value or "|".join(self.choices) or self.long.strip("-").upper()

    @property
    def parameter(self) -> str:
        """The name of the parameter that it becomes."""
        return self.name or self.long.strip("-[].").replace("-", "_").lower()

    def help_for(self, verb: str) -> str:
        """Its help with the words that belong to one verb, and its default."""
        text = "" if self.default is None else f"Default: {self.default}."
        return " ".join(filter(None, (self.help, (self.also or {}).get(verb, ""), text)))


_FORMATS = ("trec", "tsv", "csv", "jsonl", "json", "parquet")

FLAGS = (
    # what is evaluated, read or labelled
    Flag("[PATH...]", "run", DATA, "Eval files (YAML), samples (JSONL, JSON, CSV, Parquet), folders; - is JSONL on stdin. Default: the folder evals.", name="paths"),
    Flag("PATH...", "questions", DATA, "Eval files, samples, folders, or the folder of a report with open questions.", name="paths"),
    Flag("FILE...", "answers", DATA, "What the engine wrote, JSON lines.", Path, name="files"),
    Flag("RUN...", "rank", DATA, "Ranked results; several files are several systems; - is stdin.", Path, name="runs"),
    Flag("PATH...", "stages", DATA, "A report folder, or samples; with --qrels the run of each stage, in their order.", Path, name="paths"),
    Flag("PATH", "labels check,labels move", DATA, "Samples (a file, or a BEIR folder), or a report folder.", Path),
    Flag("--corpus", "run", DATA, "The documents that are searched: a file with a row each, or a folder; named in the report by a digest.", value="PATH"),
    Flag("--corpus", "rank", DATA, "The documents that were searched; --json names them by a digest, as `germane compare` reads it.", Path, value="PATH"),
    Flag("--corpus", "validate", DATA, "The documents that are searched: a file with a row each, or a folder. Default: that of a BEIR folder.", Path, value="PATH"),
    Flag("--corpus", "labels check,labels move", DATA, "The documents: a file with a row each (id, text), or a folder.", Path, value="PATH", required=True),
    Flag("[REPORT...]", "label", DATA, "A report folder (default: the latest); of two: what they do not share is labelled.", Path, name="folders", at_url="refused"),
    Flag("[REPORT...]", "audit", DATA, "Report folders (default: the latest); of several, each judge is compared with the same labels.", Path, name="folders"),
    Flag("DIR...", "merge", DATA, "The report folders of all parts, which `germane run --part 3/16 -o DIR` wrote.", Path, name="folders", at_url="kept"),
    Flag("[REPORT]", "score", DATA, "A report folder that `germane run` wrote. Default: the latest in germane-reports.", Path, name="folder"),
    Flag("[REPORT]", "explain", DATA, "A report folder; what is none is the query. Default: the latest in germane-reports.", name="named"),
    Flag("[REPORT]", "diagnose", DATA, "A report folder, or a folder of reports (the latest). Default: germane-reports.", Path),
    Flag("[REPORT]", "report", DATA, "A report folder, or a folder of reports; without it germane-reports, whose latest is shown.", Path, name="folder"),
    Flag("[REPORT...]", "compare", DATA, "Report folders, --json documents, result files of other programs, or folders of reports (the latest); one alone: its systems. Default: the two latest in germane-reports.", Path, name="reports"),
    Flag("[QUERY]", "explain", DATA, "A sample's id, its query, or a part of it; without it the worst are named."),
    Flag("[MEASURE]", "explain", MEASURES, "One measure; without it all."),
    Flag("[MEASURE]", "measures", MEASURES, "One measure in full; also FILE.py:NAME.", name="name"),
    Flag("[DIR]", "init", DATA, "Where to write it.", Path, name="folder"),
    Flag("[PATH...]", "validate", DATA, "Eval files, or folders of them; targets.yaml; samples; queries, gold and runs (JSONL, CSV, TREC, a BEIR folder).", Path, name="paths"),
    Flag("FILE...", "ledger import", DATA, "Exports, or the judgements.jsonl (or judgements.parquet) of reports.", Path, name="files"),
    Flag("--target", "run,questions", DATA, "The system to ask; several are compared.", name="targets", value="NAME", many=True),
    Flag("--targets", "run,questions", DATA, "The targets file.", Path, name="targets_file", value="FILE", at_url="kept"),
    Flag("--trials", "run", DATA, "How often each target is asked each case.", int, value="N", least=1),
    Flag("--untrusted", "run,questions", DATA, "Run, send and expand nothing that an eval file names, and read nothing outside its repository.", bool),
    Flag("--qrels", "rank", DATA, "Gold: the grade of each known document; a file, or a BEIR folder.", Path, value="GOLD", required=True),
    Flag("--qrels", "stages", DATA, "Of runs: gold, as `rank` reads it.", Path, value="GOLD"),
    Flag("--qrels", "validate", DATA, "The gold of queries or runs, as `rank` reads it.", Path, value="GOLD"),
    Flag("--queries", "rank", DATA, "What is known of the queries (JSONL, JSON, CSV): id, query, tags, metadata, cluster.", Path, value="FILE"),
    Flag("--format", "rank,stages", DATA, f"Format of the runs ({', '.join(_FORMATS)}); without it seen from the file.", value="FORMAT", choices=_FORMATS),
    Flag("--qrels-format", "rank,stages", DATA, "Format of the gold, as --format.", value="FORMAT", choices=_FORMATS),
    Flag("--columns", "run,questions,rank,stages", DATA, "Names of the columns in the data, separated by commas; repeatable:", value="NAME=COLUMN", many=True,
         also={"run": "query=Query,contexts=Context.", "rank": "query=Query,doc=Passage,score=Sim,grade=Label.",
               "stages": "query=Query,doc=Passage,score=Sim,grade=Label."}),
    Flag("--doc-id", "run,questions,rank,stages", DATA, "The part of a chunk's id that names its document.", value="REGEX"),
    Flag("--duplicates", "rank,stages", DATA, "A document twice in one query: an error, or its best place counts.", default="error", choices=("error", "first")),
    Flag("--missing", "rank", DATA, "A query with gold and no results: counts 0, or is left out.", default="zero", choices=("zero", "skip")),
    Flag("--on-bad-row", "rank", DATA, "A row that cannot be read: an error, or left out and said.", default="error", choices=("error", "skip")),
    Flag("--max-line", "rank", DATA, "Megabytes that a line may have: 64 without this and GERMANE_MAX_LINE.", value="MB"),
    Flag("--filter", "run,questions", DATA, "Cases whose id or tag matches.", name="wanted", value="GLOB"),
    Flag("--limit", "run,questions", DATA, "The first N cases.", int, value="N", least=1),
    Flag("--sample", "run,questions", DATA, "N cases drawn at random.", int, value="N", least=1),
    Flag("--until", "run", DATA, "Judge cases in random order until each judged interval is half as wide, e.g. 0.02; or 'context_recall: 0.01'; repeatable.",
         value="WIDTH", many=True),
    Flag("--seed", "run,questions,compare,label", DATA, "The seed of all that is random:", int, value="N", default=0,
         also={"run": "the draw of --sample, the order of --until.", "compare": "the flips of the test.", "label": "the draw of what is labelled."}),
    Flag("--part", "run", DATA, "One of N parts, for a machine each: 1/16 to 16/16; `germane merge` makes them one report.", value="I/N"),
    Flag("--engine", "run", DATA, "Run all parts at once: processes:8 or dask[:ADDRESS].", value="ENGINE"),
    Flag("--systems", "compare", DATA, "Systems of one report, or the one to take of each; repeatable.", value="NAME", many=True),
    Flag("--cluster", "compare", DATA, "The metadata field that names the queries' cluster.", value="FIELD"),
    Flag("--skill", "init", DATA, "Write the skill for coding agents instead: SKILL.md.", bool),
    Flag("--schema", "validate", DATA, "Print the JSON Schema of eval files, for editors.", bool),
    # who judges, and how
    Flag("--judge", "run,questions", JUDGE, "Who judges: labels, gold, lexical or a model (openai:gpt-4o-mini); several are a panel and vote.", many=True, setting=(str, list)),
    Flag("--judge", "ledger export", DATA, "Only answers of this judge."),
    Flag("--labels", "run,questions", JUDGE, "People's labels, for --judge labels and labels=human: .jsonl, .csv, TREC qrels, or a report.", Path, value="FILE", at_url="kept"),
    Flag("--labels", "labels check,labels move", DATA, "People's labels in addition to those of the samples or the report: .jsonl, .csv, TREC qrels, or a report.", Path, value="FILE"),
    Flag("--repeat", "run,questions", JUDGE, "How often each judge is asked; the answers vote.", int, value="N", default=1, least=1, setting=(int,), in_file=True),
    Flag("--cancel", "ledger batches", MONEY, "Have this batch cancelled: what it has answered is kept.", value="ID"),
    Flag("--base-url", "ledger batches", JUDGE, "With --cancel: where the batch is, if that is not its provider's own host.", value="URL"),
    Flag("--base-url", "run,questions", JUDGE, "An OpenAI-compatible endpoint for the judge.", value="URL"),
    Flag("--header", "run", JUDGE, "A header for the judge's endpoint; repeatable, written down nowhere.", name="headers", value="NAME=VALUE", many=True),
    Flag("--model-parameter", "run,questions", JUDGE, "A parameter in each request, e.g. seed=7; repeatable.", name="parameters", value="NAME=VALUE", many=True),
    Flag("--temperature", "run,questions", JUDGE, "The model's temperature; 0.1 without this.", float, value="T", least=0),
    Flag("--reasoning", "run,questions", JUDGE, "How much the model may reason, such as off or low, where it takes it.", value="LEVEL"),
    Flag("--rpm", "run", JUDGE, "Judge requests per minute at most, in all.", float, value="N", least=0.01),
    Flag("--tpm", "run", JUDGE, "Judge tokens per minute at most, in all.", float, value="N", least=1),
    Flag("--timeout", "run", JUDGE, "Seconds that one answer may take; 120 without this.", float, value="SECONDS", least=0.1),
    Flag("-j --jobs", "run", JUDGE, "Judge requests in flight at most, in all.", int, value="N", least=1, setting=(int,)),
    Flag("--against", "run,questions", JUDGE, "What relevance is judged against: auto, query, reference, response or criterion.", value="TEXT", setting=(str,), in_file=True),
    Flag("--scale", "run,questions,label", JUDGE, "Grades: graded (0-3) or binary.", setting=(str,), also={"label": "Without it as judged."}),
    Flag("--rubric", "run,questions", JUDGE, "What the grades mean: trec (UMBRELA) or usefulness.", setting=(str,)),
    Flag("--reading", "run,questions", JUDGE, "fused: one request asks all that concerns a text; single: one question.", default="fused", setting=(str,), in_file=True),
    Flag("--batch", "run,questions", JUDGE, "Passages of one query in one request.", int, value="N", default=1, least=1, setting=(int,), in_file=True),
    Flag("--prompt", "run,questions", JUDGE, "Your own wording of one kind of question; repeatable.", name="prompts", value="KIND=FILE", many=True),
    Flag("--across-judges", "compare", JUDGE, "Compare what different judges judged; says what is the judge's.", bool),
    Flag("--who", "label", JUDGE, "Whose labels these are; without it the user's name.", value="NAME"),
    Flag("--budget", "label", JUDGE, "How many labels; without it all.", int, value="N", least=1),
    Flag("--design", "label", JUDGE, "passages: some of every query; queries: whole queries. Without it the report's measures decide.", choices=("passages", "queries")),
    Flag("--queue", "label", JUDGE, "random; targeted: doubtful verdicts first; gold: the suspects of audit --gold.", default="random",
         choices=("random", "targeted", "gold")),
    Flag("--kind", "label", JUDGE, "relevance of passages, support of claims by them, or their sufficiency. Without it the report's measures decide.",
         choices=("relevance", "support", "sufficiency")),
    Flag("--guideline", "label", JUDGE, "What labellers were told: shown by ?, kept as a hash.", Path, value="FILE"),
    Flag("--gold", "audit", JUDGE, "Where judges and gold disagree most; -o suspects.csv is a queue for people.", bool),
    Flag("--all", "audit", JUDGE, "Count labels that were not drawn at random, too.", bool, name="every"),
    # what is computed
    Flag("-m --measure --metric", "run,questions,rank,score,compare", MEASURES, "Measures, separated by spaces; repeatable.", name="measures", many=True,
         setting=(list, str),
         also={"run": "Replaces a file's own.", "rank": "Default: nDCG@10 AP RR P@10 R@10 Judged@10.",
               "score": "Without them only the gates are decided anew.", "compare": "Default: all in common."}),
    Flag("-m --measure --metric", "diagnose", MEASURES, "A ranked measure; without it the report's first one."),
    Flag("--by", "run,rank,score,compare,report", MEASURES, "Slices: a tag, `tags`, a field of the metadata, `turn` of a conversation, or `calls`: how many searches.", value="TAG", setting=(str,), in_file=True, also={"rank": "With --queries."}),
    Flag("--primary", "compare", MEASURES, "Measures that the finding rests on (Holm); without it all compared.", value="MEASURE", many=True),
    Flag("--higher-is-better", "compare", MEASURES, "A measure of another program's file of which more is better; M=no: less. Repeatable.", value="M", many=True),
    Flag("--range", "compare", MEASURES, "The smallest and largest value of a measure of another program's file, e.g. helpfulness=1..5; repeatable.",
         name="ranges", value="M=LOW..HIGH", many=True),
    Flag("--margin", "compare", CI, "The acceptable loss, e.g. 'nDCG@10: 0.02'; repeatable.", value="'MEASURE: LOSS'", many=True),
    Flag("--test", "compare", MEASURES, "interval: p is that of the interval; sign-flip: a permutation test.",
         choices=("interval", "sign-flip"), default="interval"),
    Flag("-k", "stages", MEASURES, "The first places that count; without it all, or 10 where samples have no stages and longer lists.", int, value="K", least=1),
    Flag("--rel", "stages", MEASURES, "The lowest grade that counts as relevant.", int, value="GRADE", default=1, least=1),
    # what is asked, what that costs, and where answers are kept
    Flag("--dry-run", "run", MONEY, "Count calls, tokens and price; ask neither judge nor target.", bool),
    Flag("--later", "run", MONEY, "Ask in the provider's batches, at half price: they are sent, and the command ends; --resume REPORT --later fetches.", bool),
    Flag("--wait", "run", MONEY, "With --later: wait for the answers, round by round.", bool),
    Flag("--max-cost", "run", MONEY, "Stop when the judge would cost more; can be continued.", float, value="USD", least=0),
    Flag("--max-calls", "run", MONEY, "Stop before more calls of the judge, in this session; can be continued. A call is one question; a request may hold several.", int, value="N", least=0),
    Flag("--price", "run", MONEY, "US dollars for a million tokens of the judge, e.g. 0.15/0.60.", value="IN/OUT"),
    Flag("--resume", "run", MONEY, "Continue this evaluation.", Path, value="REPORT", at_url="refused"),
    Flag("--retry-errors", "run", MONEY, "With --resume: ask again what the judge failed at.", bool),
    Flag("--reask", "run", MONEY, "With --resume: go on with another judge, which is asked everything again.", bool),
    Flag("--ledger", "run,questions,answers,ledger stats,ledger batches,ledger export,ledger import", MONEY,
         "Where answers are kept; without it .germane/ledger.sqlite of the project.", value="PLACE", setting=(str,)),
    Flag("--replay", "run", MONEY, "Ask no judge: answers come from this ledger, or an export of one; a missing one is exit code 3.", value="LEDGER"),
    Flag("--no-cache", "run", MONEY, "Neither read nor write the shared ledger.", bool),
    Flag("--kind", "ledger export", DATA, "Only this kind of question, such as relevance or claims."),
    Flag("--since", "ledger export", DATA, "Only answers from this date on.", value="DATE"),
    Flag("-o --output", "run", OUTPUT, "A report file (.html .json .jsonl .csv .md .txt .xml .svg .png .parquet) or the report folder; repeatable.", Path, value="PATH", many=True, at_url="kept"),
    Flag("-o --output", "rank", OUTPUT, "Write a file: .csv, .parquet per query; .md, .tex of the means; repeatable.", Path, value="FILE", many=True, at_url="refused"),
    Flag("-o --output", "questions", OUTPUT, "The file of requests, JSON lines.", Path, value="FILE", required=True, at_url="refused"),
    Flag("-o --output", "merge", OUTPUT, "The new report folder, and report files (.html .json .md ...); repeatable.", Path, value="PATH", many=True, required=True, at_url="kept"),
    Flag("-o --output", "score", OUTPUT, "A report file, or a new report folder; repeatable.", Path, value="PATH", many=True, at_url="refused"),
    Flag("-o --output", "report,compare", OUTPUT, "Write a file; repeatable:", Path, value="FILE", many=True,
         also={"report": ".html .json .jsonl .csv .md .txt .xml .svg .png .parquet, and those of add-ons.", "compare": ".html .json .csv .md .tex .txt."}, at_url="refused"),
    Flag("-o --output", "audit,ledger export", OUTPUT, "The file to write.", Path, value="FILE",
         also={"audit": "Markdown; with --gold also .csv.", "ledger export": "Without it, stdout."}, at_url="refused"),
    Flag("-o --output", "labels move", OUTPUT, "The samples to write: .jsonl.", Path, value="FILE", required=True, at_url="refused"),
    Flag("--force", "run,merge,init", OUTPUT, "Overwrite", bool,
         also={"run": "the report of another evaluation in the folder of -o.", "merge": "the report of another evaluation in the folder of -o.",
               "init": "files that are there."}),
    Flag("--json", "run,questions,answers,merge,rank,score,compare,stages,diagnose,label,report,explain,audit,labels check,labels move,measures,validate,ledger stats,ledger batches", OUTPUT,
         "Print one JSON document on stdout.", bool),
    Flag("-v --verbose", "run,merge,score,compare", OUTPUT, "Print every note; without it three at most, and those that change what a number means.", bool),
    Flag("-q --quiet", "run,merge", OUTPUT, "Print only what failed, and notes that change what a number means.", bool),
    Flag("-q --per-query", "rank", OUTPUT, "Print the value of every query, too.", bool),
    Flag("-q --per-query", "stages", OUTPUT, "Print every relevant document, query by query.", bool),
    Flag("--trec", "rank", OUTPUT, "Print as trec_eval does: measure, query, value.", bool),
    Flag("--no-text", "report", OUTPUT, "Leave queries, passages, references and reasons out of the .html.", bool),
    Flag("--for-width", "label", OUTPUT, "Only tell how many labels make the corrected intervals this narrow, e.g. 0.05.", float, value="WIDTH"),
    Flag("--import", "label", OUTPUT, "Add labels from a file: .jsonl, .json, .csv, .tsv or TREC qrels.", Path, name="take", value="FILE"),
    Flag("--export", "label", OUTPUT, "Write the labels to a file: .jsonl, .csv or TREC qrels.", Path, name="give", value="FILE", at_url="refused"),
    # what is good enough
    Flag("--fail-under", "run,rank,score", CI, "A gate, e.g. 'lower(nDCG@10)>=0.7': exit 1 below it; repeatable.", name="gates", value="GATE", many=True, setting=(list, str)),
    Flag("--baseline", "run,score", CI, "For gates on change(...): a report folder, a --json document, or a folder of reports (the latest).", Path, value="REPORT", at_url="kept"),
    Flag("--baseline", "report", OUTPUT, "Another report:", Path, value="REPORT",
         also={"report": "shown for comparison (.html .md .svg .png)."}),
    Flag("--allow-stand-in", "run,score,compare", CI, "Decide on what a stand-in for a model judged (lexical); else undecided, exit 3.", bool),
    Flag("--fail-on-regression", "run,score,compare", CI, "Exit 1 where a measure got worse: the whole interval of its change is a loss, p (Holm) at most 0.05.", bool, also={"run": "With --baseline.", "score": "With --baseline."}),
    Flag("--max-unmeasured", "run", CI, "Share of scores that may be missing, 0 to 1.", float, value="SHARE", default=0.05, least=0, most=1, setting=(float, int)),
)  # fmt: skip

SETTINGS = {flag.parameter: flag for flag in FLAGS if flag.setting}
"""The flags that germane.toml may set, by the names that they have there."""


def flags_of(verb: str) -> list[Flag]:
    """The flags of one verb: arguments in order, and options; of a command that nobody here knows those of installed add-ons."""
    known = [flag for flag in (*FLAGS, *addons.flags()) if verb in flag.verbs.split(",")]
    return known or [flag for flag in addons.flags(installed=True) if verb in flag.verbs.split(",")]


def borrowed(verb: str, of: str, *spellings: str) -> list[Flag]:
    """Flags of a command of the core, as a command of an add-on has them."""
    return [
        flag._replace(verbs=verb, setting=(), also=None)
        for flag in FLAGS
        if of in flag.verbs.split(",") and flag.long in spellings
    ]


OPTION_DEFAULTS = ("seed", "repeat", "reading", "batch", "max_unmeasured")
"""Options of a run that have a default value, which gives way to a file or a manifest only where the flag is not given."""
