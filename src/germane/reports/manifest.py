"""Entries of manifest.json: who judged and what that cost, and the graders of the samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from germane.encoding import now
from germane.judges.judge import Judge
from germane.judging.spending import Spent
from germane.measures.labels import Settings
from germane.measures.measure import Measure
from germane.measures.scoring import Grader
from germane.types import Json, freeze
from germane.version import __version__


def manifest_of(settings: Settings, judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """How a report came to be; what its rows say of themselves is added when it is built."""
    return {
        "germane": __version__,
        "created": now(),
        "judge": judge_entry(judge, spent),
        "settings": {"against": settings.against, "scale": settings.scale, "rubric": settings.rubric},
    }


def judge_entry(judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """Who judged, and what that cost."""
    return {
        "source": judge.name if judge is not None else None,
        "identity": dict(judge.identity) if judge is not None else None,
        "stand_in": judge.stand_in if judge is not None else "",
        **spent.as_json(),
    }


def spent_in_words(entry: Mapping[str, Json]) -> str:
    """What judging cost, from a manifest's entry: the same words wherever people read it."""
    calls, cached, shared = (entry.get(name, 0) for name in ("calls", "cached", "shared"))
    tokens, requests, price = entry.get("tokens") or {}, entry.get("requests", 0), entry.get("cost_usd")
    words = [f"{calls} calls", f"{cached} cached" + (f" ({cached / (calls + cached):.0%})" if cached else "")]
    if shared:
        words.append(f"{shared} shared")
    if requests or any(tokens.values()):
        words.append(f"{requests} requests")
        about = "about " if entry.get("estimated") else ""
        words.append(f"{about}{tokens.get('input', 0):,} + {tokens.get('output', 0):,} tokens")
        words.append("price unknown" if price is None else f"{about}${price:.4f}")
    if entry.get("errors"):
        words.append(f"{entry['errors']} failed")
    return ", ".join(words)


def dump_grader(grader: Grader) -> dict[str, Json]:
    """A grader as a JSON object with all its fields: what a stored report needs to compute cases and verdicts again.

    What grades a case and is no measure comes from the eval file; its results stand in the judgements.
    """
    shown = {field.name: getattr(grader, field.name) for field in fields(Grader) if field.name != "by"}
    return {**shown, "measure": str(grader.measure)}


def load_grader(row: Mapping[str, Json]) -> Grader:
    """The grader in a JSON object."""
    return Grader(**{**row, "measure": Measure.remembered(row["measure"]), "options": freeze(row["options"])})


def circular(manifest: Mapping[str, Json]) -> Iterator[str]:
    """A warning for each model inside a system that is of the judge's family, which may favour its own."""
    identity = (manifest.get("judge") or {}).get("identity") or {}
    members = identity.get("panel") or [identity]
    for judge in dict.fromkeys(str(one["model"]) for one in members if one.get("model")):
        for system, roles in (manifest.get("targets") or {}).items():
            for role, model in roles.items():
                if model_family(judge) == model_family(model):
                    yield (
                        f"circular: the judge {judge} is of the same family as the {role} {model} of {system}, whose "
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
    """Who made a model, by its name: gpt-4o -> openai; of a name that is not known its first word."""
    name = re.split(r"[/:@]", model.casefold().strip())
    for part in reversed(name):
        for family, pattern in _FAMILIES:
            if re.match(pattern, part):
                return family
    return re.split(r"[-_ .\d]", name[-1])[0] or name[-1]
