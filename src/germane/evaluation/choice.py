"""Choose the judge, the ledger and the default measures. Flags > eval file > environment > config.

A resumed evaluation uses the judge and the ledger that it began with, and the answers of earlier sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from germane.addons import load
from germane.clean import mask_urls, some_of
from germane.encoding import decode, encode
from germane.errors import InputError
from germane.evaluation.spec import OPTIONS, Spec, environment, read_config
from germane.folder.files import earlier_judgements
from germane.folder.reader import check_digest
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge, members_of
from germane.judges.panel import panel_of
from germane.measures.graders import Grader
from germane.measures.scoring import Job
from germane.places.lists import rankings, turns
from germane.questions.question import AnyQuestion
from germane.types import Json, Sample

__all__ = [
    "judged_by",
    "keeps_answers",
    "ledger_address",
    "ledger_of",
    "needs_judge",
    "no_judge",
    "open_ledger",
    "pick_judge",
]

if TYPE_CHECKING:
    from germane.judges.labels import LabelsJudge
    from germane.ledger.store import Ledger
    from germane.questions.asking import AskJudge


class Router:
    """A callable that returns the judge that answers a question.

    This judge is the script that the question names in `by_program`, or else the evaluation's `judge`.
    """

    def __init__(self, judge: Judge | None) -> None:
        self.judge = judge
        self.ask: AskJudge | None = None
        """Asks the evaluation's judge, for scripts that may call it."""
        self._programs: dict[str, Judge] = {}

    def __call__(self, question: AnyQuestion) -> Judge:
        """Return the judge that answers `question`: the script that it names, else the evaluation's judge.

        Raises InputError if there is neither a script nor a judge.
        """
        if program := question.by_program:
            if program not in self._programs:
                self._programs[program] = load(program)(ask=self.ask)
            return self._programs[program]
        if self.judge is None:
            raise no_judge([question.kind])
        return self.judge


def judged_by(judge: Judge | None) -> str:
    """Return "labels" if `judge` only looks up people's labels, "gold" if it looks up gold, else ""."""
    return next((_READERS[kind.__name__] for kind in type(judge).__mro__ if kind.__name__ in _READERS), "")


_READERS = {"LabelsJudge": "labels", "GoldJudge": "gold"}
"""The classes of judges that return stored labels, by name, because they are imported only if needed."""


def needs_judge(graders: Iterable[Grader]) -> list[str]:
    """Return the names of the graders that ask a judge."""
    return list(dict.fromkeys(grader.name for grader in graders if (grader.by or grader.measure).asks))


def no_judge(names: Sequence[str]) -> InputError:
    """Return the InputError for measures (`names`) that need a judge although no judge is named."""
    fix = "name one: --judge labels | lexical | openai:gpt-4o-mini (in Python: judge=...)"
    return InputError(f"these measures need a judge: {some_of(names)}", fix=fix)


def keeps_answers(judge: Judge | None) -> bool:
    """Return True if the answers of the judge, or of any member of a panel, are stored in the ledger."""
    return judge is not None and any(member.stored for member in members_of(judge))


def with_labels(jobs: Iterable[Job], judge: Judge | None) -> Iterable[Job]:
    """Return the jobs; if the judge is a LabelsJudge, exchange labels between it and the jobs.

    The judge's labels are added to the contexts of the jobs, and the labels of the contexts are stored in the
    judge.
    """
    if judge is None or "reads" not in judge.identity:
        return jobs
    from germane.judges.labels import LabelsJudge

    return (_taught(job, judge) for job in jobs) if isinstance(judge, LabelsJudge) else jobs


def _taught(job: Job, reader: LabelsJudge) -> Job:
    sample, history = job.sample, turns(job.sample)
    if reader.by_item:
        sample = sample.with_contexts(partial(reader.labelled, sample.query, history))
    if any(grader.by is not None or grader.measure.definition.asks for grader in job.graders):
        for _, contexts in rankings(sample):
            reader.learn(sample.query, contexts, history, sample.qrels)
    return job if sample is job.sample else structs.replace(job, sample=sample)


def judge_words(spec: Spec) -> tuple[str, bool]:
    """Return the judge's name ("" if no judge is named), and True if it may get a key from the environment.

    A judge named by a flag may get a key. A judge named by a report, a file or the config may not, unless the
    environment names the same judge. A resumed report contains the name with masked URLs, so the unmasked
    name is taken from the file, the environment or the config if they name this judge. Without `--base-url`,
    a base URL from a report or a file becomes part of the name.
    """
    named, source = spec.first("judge")
    words = str(named or "")
    if source == "report":
        sources = (spec.first("judge", name)[0] for name in ("files", "environment", "config"))
        words = next((name for name in sources if name and mask_urls(name) == words), words)
    if source in {"report", "files"} and "base_url" not in spec.given and spec.base_url:
        at_url = (
            f"{name.partition('@')[0]}@{spec.base_url}" if ":" in name else name for name in words.split()
        )
        words = " ".join(at_url)
    of_environment = words == spec.environment.get("judge") and source != "config"
    return words, source == "given" or of_environment


def pick_judge(spec: Spec, needed: Sequence[str] = ()) -> Judge | None:
    """Return the judge that the options in `spec` name; several names separated by spaces make a panel.

    `needed` are the names of the measures that ask a judge. If no judge is named, returns None if `needed` is
    empty, and raises InputError otherwise. A judge named by a file, a report or the config gets no API
    key from the environment for its URL, unless the environment names the same judge.
    """
    words, trusted = judge_words(spec)
    if words:
        from germane.judges import load_judge  # imported only where a judge is named

        names = words.split()
        keywords = _keywords(spec, several=len(names) > 1)
        judges = [load_judge(name, trusted=trusted, **keywords) for name in names]
        if len(judges) > 1 and ("base_url" in keywords or "headers" in keywords):
            from germane.judges.llm import check_shared

            check_shared(judges, keywords.get("base_url"), keywords.get("headers", {}))
        return panel_of(judges, spec.repeat)
    if needed:
        raise no_judge(needed)
    return None


def _keywords(spec: Spec, *, several: bool) -> dict[str, Json]:
    """Return the options in `spec` as arguments of LLMJudge. A URL from a report gets no key."""
    from germane.judges.client.providers import Price
    from germane.judges.client.ratelimits import RateLimiter
    from germane.judges.client.retry import RetryPolicy

    values = {flag.judge: getattr(spec, name) for name, flag in OPTIONS.items() if flag.judge}
    values["base_url"] = spec.given.get("base_url")
    in_flight = spec.jobs if several else None
    if any(limit is not None for limit in (spec.rpm, spec.tpm, in_flight)):
        values["limiter"] = RateLimiter(rpm=spec.rpm, tpm=spec.tpm, in_flight=in_flight)
    if timeout := spec.timeout:
        values["retry"] = RetryPolicy(read=timeout, deadline=max(RetryPolicy().deadline, 5 * timeout))
    if spec.price:
        values["price"] = Price(input=spec.price[0], output=spec.price[1])
    return {
        name: dict(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, ())
    }


def check_same_judge(
    stored: Mapping[str, Json],
    judge: Judge | None,
    *,
    fix: str = "give the same judge as before, or --reask to ask it every question again",
    anywhere: bool = False,
) -> None:
    """Raise InputError if the resumed evaluation had another judge than `judge`.

    `stored` is the manifest of the resumed evaluation, and `fix` is the advice in the error. With `anywhere`,
    the base URLs of the judges may differ. Nothing is compared if either evaluation has no judge.
    """
    before = mask_urls((stored.get("judge") or {}).get("identity"))
    asked = None if judge is None else decode(encode(mask_urls(judge.identity)))
    if anywhere:
        before, asked = map(_without_url, (before, asked))
    if not before or not asked or before == asked:
        return
    changed = sorted(name for name in {**before, **asked} if before.get(name) != asked.get(name))
    text = ", ".join(f"{name} was {before.get(name)} and is now {asked.get(name)}" for name in changed)
    raise InputError(f"an evaluation must be resumed with the same judge: {text}", fix=fix)


def _without_url(identity: Json) -> Json:
    """Return a judge's identity without its base URL and, for a panel, without its members' base URLs."""
    if isinstance(identity, Mapping):
        return {name: _without_url(value) for name, value in identity.items() if name != "base_url"}
    return [*map(_without_url, identity)] if isinstance(identity, list | tuple) else identity


LOOKED_AT = 10_000
"""The number of samples that are read to choose the default measures."""


_OF_GOLD = ("nDCG@10", "R@10", "RR")
_OF_RELEVANCE = ("context_precision", "context_relevancy(unit=context)")
_OF_REFERENCES = ("context_recall",)


def default_measures(
    samples: Iterable[Sample], judge: str, *, asked: bool = False
) -> tuple[tuple[str, ...], str]:
    """Return the default measures for these samples, and a note that tells the user how they are measured.

    `judge` is the name of the judge in a flag, a file or the config, or "". A judge that only the environment
    names is not used, so that default measures cost nothing. `asked` is True if a target is asked for the
    contexts. Raises InputError if the samples allow no measure.
    """
    retrieved = gold = references = False
    for sample in samples:
        contexts = list(sample.retrieved())
        retrieved = retrieved or asked or sample.contexts is not None or sample.calls is not None
        if any(grade > 0 for grade in (sample.qrels or {}).values()):
            gold = gold or asked or not contexts or any(context.id for context in contexts)
        references = references or bool(sample.reference)
    if not retrieved:
        fix = 'write "contexts": [...] on each line, or name the system to query: --target NAME'
        raise InputError(
            "no measure is named, and the default measures need retrieved contexts, which the data do not have",
            fix=fix,
        )
    by = "from people's labels" if judge == "labels" else f"judged by {judge}"
    sources: dict[tuple[str, ...], str] = {}
    if gold:
        sources[_OF_GOLD] = "from gold labels (qrels)"
    if judge:
        sources[_OF_RELEVANCE] = by
    if references and not set(judge.split()) <= {"labels", "gold"}:
        sources[_OF_REFERENCES] = f"{by} against the references"
    if not sources:
        fix = (
            "write --judge MODEL or labels (GERMANE_JUDGE alone is not enough), -m nDCG@10,"
            ' or give gold: "qrels": {"d7": 1}'
        )
        problem = "no measure is named, and no judge is named, and the data have no gold labels"
        raise InputError(problem, fix=fix)
    why = "; ".join(f"{', '.join(names)} {source}" for names, source in sources.items())
    return tuple(chain.from_iterable(sources)), f"measured: {why}; choose others with -m"


def ledger_address(flag: str | None = None) -> str:
    """Return the ledger's address: `flag`, else GERMANE_LEDGER, else the config's, else the default one."""
    from germane.ledger.sqlite import address_from, find_ledger, password_apart

    if named := flag or environment("ledger"):
        return password_apart(named)
    config, folder = read_config()
    if config.get("ledger"):
        return password_apart(address_from(folder, config["ledger"]))
    return str(find_ledger(Path.cwd()))


def ledger_of(spec: Spec, folder: Path | None) -> str | None:
    """Return the address of the ledger of a run that writes its report to `folder`.

    With --no-cache, the ledger is a file in `folder` until the report is complete; if `folder` is None, the
    run has no ledger, and None is returned. A resumed run uses its earlier ledger if that ledger still exists
    and no other ledger is given.
    """
    from germane.ledger.sqlite import is_there

    if spec.no_cache:
        return None if folder is None else str(folder / "ledger.sqlite")
    named, source = spec.first("ledger", "given", "report")
    if named and (source == "given" or is_there(named)):
        return str(named)
    return ledger_address()


def open_ledger(
    address: str | Path | None, replay: str | Path | None = None, *, read_only: bool = False
) -> Ledger | None:
    """Open and return the ledger at `replay` (read-only), else at `address`; return None if both are None."""
    if replay is None and address is None:
        return None
    from germane.ledger.sqlite import open_at, open_for_replay

    return open_for_replay(replay) if replay is not None else open_at(address or "", read_only=read_only)


def open_earlier(files: Sequence[Path]) -> Ledger | None:
    """Return the answers in files of judgements as a ledger; None if there are no files.

    Lines that cannot be read are skipped.
    """
    if not files:
        return None
    from germane.ledger.sqlite import SQLiteLedger

    return SQLiteLedger(files[0], rows=earlier_judgements(files))


def answers_in(folder: FolderWriter, stored: Mapping[str, Json]) -> Ledger | None:
    """Return the answers of earlier sessions in the report folder as a ledger; None if there are no answers.

    `stored` is the folder's manifest. Raises InputError if the report is complete and its file of judgements
    was modified afterwards.
    """
    if stored.get("status") == "complete":
        file = folder.path / "judgements.jsonl"
        if digest := stored.get("files", {}).get(file.name):
            check_digest(file, digest)
    return open_earlier(folder.earlier(finished=not stored.get("replaces", False)))


def remove_ledger(path: Path) -> None:
    """Delete a ledger's file and its write-ahead log."""
    from germane.ledger.sqlite import files_of

    for file in files_of(path):
        file.unlink(missing_ok=True)
