"""Entries of manifest.json: the judge, its cost, and the basis of each mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from germane.clean import counted, mask_urls
from germane.encoding import now
from germane.folder.rows import Tables
from germane.measures.measure import Measure
from germane.measures.ranked import belonging_to
from germane.places.table import Source
from germane.reports.derived.lines import JUDGE_COUNTS, JudgeLine
from germane.reports.summary import Basis, known_measure
from germane.types import FrozenDict, Json
from germane.version import __version__

__all__ = ["judge_in_all", "models_in"]

if TYPE_CHECKING:  # `germane rank` starts without a judge
    from germane.judges.judge import Judge
    from germane.judging.spending import Spent
    from germane.places.settings import Settings


def manifest_of(settings: Settings, judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """Return the first entries of a manifest; those counted from the rows are added when the report is built."""
    return {
        "germane": __version__,
        "created": now(),
        "judge": judge_entry(judge, spent),
        "settings": {"against": settings.against, "scale": settings.scale, "rubric": settings.rubric},
    }


def judge_entry(judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """Return the judge and its cost."""
    return {
        "source": judge.name if judge is not None else None,
        "identity": mask_urls(judge.identity) if judge is not None else None,
        "stand_in": judge.stand_in if judge is not None else "",
        **spent.as_json(),
    }


def judge_in_all(entries: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the entry of one judge of several evaluations with its total cost, which is None if one is not known."""
    counts = {name: sum(of[name] for of in entries) for name in JUDGE_COUNTS}
    tokens = {name: sum(of["tokens"][name] for of in entries) for name in ("input", "output")}
    costs = [of["cost_usd"] for of in entries]
    return {
        **entries[0],
        **counts,
        "tokens": tokens,
        "estimated": any(of["estimated"] for of in entries),
        "cost_usd": None if None in costs else sum(costs),
    }


class Bases:
    """The basis of each measure of an evaluation, from the counts in its manifest."""

    def __init__(self, manifest: Mapping[str, Json], tables: Tables) -> None:
        self._manifest, self._tables = manifest, tables
        self._judge = JudgeLine.stored(manifest.get("judge"))
        self._asked: Mapping[str, Any] = manifest.get("asked") or {}
        self._reads: Mapping[str, Any] = manifest.get("reads") or {}

    def of(self, canonical: str, system: str = "") -> Basis:
        """Return the basis of a measure by its canonical name, over the cases of a system."""
        measure = known_measure(canonical)
        source = self._source(measure, canonical)
        outdated = self._tables.labels_added() and Measure.remembered(canonical).labels in {"human", "best"}
        if source in {"gold", "human"}:
            means = (self._manifest.get("beside") or {}).get(system) or {}
            asked = {name for _, name in self._tables.scores.measures} if means else set()
            names = [str(measure) for measure in belonging_to([Measure.parse(canonical)])] if means else ()
            beside = {name: means[name] for name in names if name in means and name not in asked}
            return Basis(source=source, beside=FrozenDict(beside), outdated=outdated)
        kinds = self._reads.get(canonical) or (["relevance"] if source == "best" else list(self._asked))
        counts = [self._asked[kind] for kind in kinds if kind in self._asked]
        references = {"with_reference", "without_reference"}
        # earlier reports only count all measures together
        own = (self._manifest.get("references") or {}).get(canonical)
        with_counts = [own] if own else [count for count in counts if references & count.keys()]
        return Basis(
            source=source,
            calibrated=False,
            models=_sum(counts, "model"),
            modes=_sum(counts, "mode"),
            **asked_how(counts),
            **{name: sum(count.get(name, 0) for count in with_counts) for name in references if with_counts},
            mixed=self._mixed if source == "best" else None,
            labels=self._labelled,
            stand_in=bool(self._judge.stand_in) and set(kinds) != {"script"},
            outdated=outdated,
        )

    def _source(self, measure: Measure | None, canonical: str) -> Source:
        if measure is None:
            return "judge"
        source: Source = "judge" if measure.definition.asks else "gold"
        if measure.definition.family == "ranked":
            source = measure.labels
        elif measure.definition.family == "graded" and self._reads.get(canonical):
            source = "judge"
        answered: dict[str, Source] = {"labels": "human", "gold": "gold"}
        kind = self._judge.identity.get("judge") or self._judge.source
        return answered.get(str(kind or ""), source) if source == "judge" else source

    @cached_property
    def _labelled(self) -> int:
        """The number of labels that people gave, without those that were taken back."""
        labels = self._tables.labels
        if not any(label.answer is None for label in labels):
            return len(labels)
        people = {(label.item, label.who): label.answer for label in labels}
        return sum(answer is not None for answer in people.values())

    @cached_property
    def _mixed(self) -> float | None:
        """The share of people's labels among all labelled places."""
        labels = [label for label in self._tables.labels if label.kind == "relevance"]
        people = len({(label.sample, label.system, label.call, label.rank) for label in labels})
        labelled = {label.item for label in labels}
        judged = sum(row.kind == "relevance" and row.item not in labelled for row in self._tables.places)
        return people / (people + judged) if people + judged else None


def asked_how(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of judgements that shared a request, were in a list or in windows, or had no temperature."""
    result = dict.fromkeys(_HOW, 0)
    for count in counts:
        result["fused"] += count.get("fused", 0)
        result["listed"] += sum(count.get("list_size", {}).values())
        result["windowed"] += count.get("windows", 0)
        result["without_temperature"] += count.get("left_out", {}).get("temperature", 0)
    return result


def asked_in_words(manifest: Mapping[str, Json]) -> str:
    """Return a text with the models, their numbers of judgements and how they were asked; "" if no model was asked."""
    counts = [*(manifest.get("asked") or {}).values()]
    models, modes = _sum(counts, "model"), _sum(counts, "mode")
    if not modes:
        return ""
    by = ", ".join(f"{model} ({times})" if len(models) > 1 else model for model, times in models.items())
    how = [f"{times} by {_MODES.get(mode, mode)}" for mode, times in modes.items()]
    how += [f"{times} {_HOW[name]}" for name, times in asked_how(counts).items() if times]
    count = sum(modes.values())
    return f"{counted(count, 'judgement')}{f' by {by}' if by else ''}: {', '.join(how)}"


_MODES = {"schema": "structured output", "tool": "a tool call", "prompt": "a schema in words, not enforced"}
_HOW = {
    "fused": "fused with others in one request",
    "listed": "in lists",
    "windowed": "in windows",
    "without_temperature": "without temperature",
}


def _sum(counts: list[Mapping[str, Any]], field: str) -> FrozenDict:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count.get(field, {}))
    return FrozenDict(total)


def models_in(identity: Mapping[str, Json]) -> Iterator[str]:
    """Yield the models that a judge of that identity asks: its own, or those of a panel's members."""
    if identity.get("model"):
        yield str(identity["model"])
    for member in identity.get("panel") or ():
        yield from models_in(member)


def circular(judge: JudgeLine, targets: Mapping[str, Mapping[str, str]] | None) -> Iterator[str]:
    """Yield warnings about models of a system that are of the judge's family, since it may favour their output."""
    for asked in dict.fromkeys(models_in(judge.identity)):
        for system, roles in (targets or {}).items():
            for role, model in roles.items():
                if model_family(asked) == model_family(model):
                    yield (
                        f"circular: the judge {asked} is of the same family as the {role} {model} of {system}, whose "
                        "output it may favour"
                    )


_FAMILIES = (
    ("openai", r"gpt|chatgpt|o[134]\b|davinci|text-embedding"),
    ("anthropic", r"claude"),
    ("google", r"gemini|gemma|palm"),
    ("meta", r"llama"),
    ("mistral", r"[a-z]*stral|mixtral"),
    ("qwen", r"qwen|qwq"),
    ("deepseek", r"deepseek"),
    ("cohere", r"command|cohere|rerank-"),
    ("microsoft", r"phi-?\d"),
    ("xai", r"grok"),
    ("amazon", r"nova|titan"),
    ("zhipu", r"glm"),
    ("moonshot", r"kimi"),
    ("baai", r"bge"),
    ("jina", r"jina"),
)


def model_family(model: str) -> str:
    """Return the maker of a model by its name (gpt-4o -> openai); of an unknown name its first word."""
    name = re.split(r"[/:@]", model.casefold().strip())
    for word in reversed(name):
        for family, pattern in _FAMILIES:
            if re.match(pattern, word):
                return family
    return re.split(r"[-_ .\d]", name[-1])[0] or name[-1]
