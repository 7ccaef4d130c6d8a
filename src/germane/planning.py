"""What a run is told, worked out: what is evaluated, how, by which judge, and what must be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from germane.answering import prepared, script_of
from germane.config import read_config
from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judging.budget import check_price
from germane.measures.graders import CODE_JUDGE
from germane.measures.measure import parse_measures
from germane.measures.scoring import Job
from germane.measures.settings import Settings
from germane.options import Options, configured
from germane.reports.gates import Gate
from germane.routing import needs_judge
from germane.samples.notices import Notices
from germane.setup import at, judge_words, pick_judge, settled
from germane.suite import Item, Suite, load_suite
from germane.types import Json

__all__ = ["Plan"]


class Plan:
    """What a run does, known before anything is asked or written.

    Args:
        told: What flags say, and the library's caller.
        warn: Told what is probably not meant in the files.
        stored: The manifest of the sessions before, whose options hold where none are told; {} where there is none.

    Raises:
        InputError: The files, gates or judge cannot be used, or a cost limit is set and no price is known.
    """

    def __init__(
        self, told: Options, warn: Callable[[str], None], stored: Mapping[str, Json] | None = None
    ) -> None:
        self._said = configured(told)
        """What flags say, as opposed to what a resumed folder's manifest says: only flags are trusted with a key."""
        self.options = self._said.over((stored or {}).get("options") or {}, (stored or {}).get("cwd") or "")
        self.notices = Notices(lambda notice: warn(str(notice)))
        self.suite = _suite(self.options, self.notices)
        self.settings = Settings.of(self.options.against or self.suite.setting("against"), self.options.scale)
        self.gates = (*self.suite.gates, *map(Gate.parse, self.options.gates))
        self.judge = self._judge()
        """Who judges; None where no measure asks."""
        check_price(self.judge, self.options.max_cost)
        self._document_ids = self.suite.document_ids()

    @property
    def asks_targets(self) -> bool:
        """Whether any case needs a target: their answers are all on disk before anything is judged."""
        return bool(self.options.targets) or any(
            file.target or any(case.target for case in file.cases) for file in self.suite.files.values()
        )

    def items(self) -> Iterator[Item]:
        """The cases, as the files have them."""
        return self.suite.items()

    def job(self, item: Item, notes: Counter[str] | None = None) -> Job:
        """An answered case, ready to be judged and scored; `notes` count what a reader should know."""
        item = prepared(item, self._document_ids, Counter() if notes is None else notes)
        if not item.specs:
            return Job(sample=item.sample, graders=item.graders)
        graders = (replace(grader, script=script_of(item, grader)) for grader in item.graders)
        return Job(sample=item.sample, graders=tuple(graders))

    def _judge(self) -> Judge | None:
        """The judge, where the graders need one; what the gates are about is checked on the way."""
        graders = self.suite.all_graders()
        for gate in self.gates if graders else ():
            gate.check_named({name for grader in graders for name in (grader.name, str(grader.measure))})
        needed = needs_judge(grader for grader in graders if grader.measure != CODE_JUDGE)
        self.options = settled(self.options, self.suite.asking())
        flag, in_file, url = self._named()
        found = pick_judge(flag, in_file, options=replace(self.options, base_url=url), needed=needed)
        if found is not None and self.options.judge is None:
            self.options = replace(self.options, judge=judge_words(flag, in_file)[0])
        return found if needed else None

    def _named(self) -> tuple[str | None, str | None, str | None]:
        """The judge by flag, the judge in a file, and the base URL by flag.

        What a resumed folder's manifest says counts as said in a file: a URL in it gets no key.
        """
        in_file = self.suite.setting("judge")
        if self._said.judge is None:
            in_file = self.options.judge or in_file
            if in_file and self._said.base_url is None and self.options.base_url:
                in_file = at(in_file, self.options.base_url)
        return self._said.judge, in_file, self._said.base_url


def _suite(options: Options, warn: Callable[..., None]) -> Suite:
    if not options.paths:
        raise InputError("nothing to evaluate", fix="name an eval file, a data file or a folder")
    paths, files = load_suite([Path(path) for path in options.paths], warn)
    return Suite(
        paths=paths,
        files=files,
        measures=parse_measures(options.measures),
        usual=parse_measures(_words(read_config(Path.cwd()).get("measures"))),
        targets=options.targets,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        columns=dict(options.columns),
        doc_id=options.doc_id,
        wanted=options.wanted,
        limit=options.limit,
        sample=options.sample,
        seed=options.seed,
        warn=warn,
    )


def _words(value: Json) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(map(str, value))
