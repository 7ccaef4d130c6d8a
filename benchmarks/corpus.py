"""100 invented samples: a question, 10 contexts of about 150 tokens, a reference, a response, gold. Seeded.

Standard library only: the same samples are made in every peer's environment. Tokens are bytes / 4.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

CONTEXTS, BYTES = 10, 600
_FIRST = [
    "Ald",
    "Bren",
    "Cor",
    "Dun",
    "Esk",
    "Far",
    "Gal",
    "Hol",
    "Ister",
    "Jor",
    "Kel",
    "Lor",
    "Mar",
    "Nor",
    "Ost",
    "Per",
    "Quen",
    "Ros",
    "Sil",
    "Tor",
    "Ulm",
    "Var",
    "Wen",
    "Yar",
]
_LAST = [
    "by",
    "dale",
    "fell",
    "ford",
    "gate",
    "ham",
    "haven",
    "holm",
    "ley",
    "mere",
    "mouth",
    "ness",
    "port",
    "stead",
    "ton",
    "wick",
    "worth",
    "burgh",
    "combe",
    "hurst",
]
_TRADES = [
    "glass",
    "rope",
    "clock",
    "paper",
    "salt",
    "cloth",
    "copper",
    "timber",
    "pottery",
    "cheese",
    "barley",
    "leather",
    "brick",
    "lamp",
    "bell",
]
_PEOPLE = [
    "Ada",
    "Bruno",
    "Clara",
    "Dario",
    "Edda",
    "Felix",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karla",
    "Linus",
    "Mira",
    "Nils",
    "Olga",
    "Pavel",
    "Runa",
    "Sven",
]
_SIGHTS = [
    "old quay",
    "north gate",
    "covered market",
    "round tower",
    "long bridge",
    "upper mill",
    "tide pool",
    "signal house",
]

_FACTS = (
    "The {trade} works of {town} were founded in {year} by {person} {family}.",
    "At their height the {trade} works of {town} employed {number} people, most of them from the {sight}.",
    "{person} {family} sold the {trade} works to the city of {other} in {later}.",
    "Since {later} a museum in {town} has shown how {trade} was made there.",
)
_NOISE = (
    "The {sight} of {town} was repaired after the flood of {year}, and the city of {other} paid for half of it.",
    "Every {number} years the guilds of {town} elect a speaker, who keeps the keys of the {sight}.",
    "{person} {family} drew the first map of {town}, which shows the {sight} on the wrong bank of the river.",
    "Trade in {trade} between {town} and {other} came to an end in {later}, when the road was closed.",
    "In {year} the harbour of {other} handled {number} ships, more than any other on that coast.",
    "A letter of {person} {family} mentions the {sight} and the price of {trade}, but nothing about {town}.",
)


def samples(count: int = 100, seed: int = 7, changed: bool = False) -> list[dict[str, Any]]:
    """The samples as mappings; `changed` replaces one context of each (its fifth) by another text."""
    return [_sample(number, random.Random(seed * 100_003 + number), changed) for number in range(count)]


def _sample(number: int, rng: random.Random, changed: bool) -> dict[str, Any]:
    words = {**_words(rng), "town": f"{rng.choice(_FIRST)}{rng.choice(_LAST)} {number}"}
    facts = [fact.format(**words) for fact in _FACTS]
    holds = _spread(rng, len(facts))
    contexts = [
        {"id": f"d{number}-{place}", "text": _text(rng, words, [facts[n] for n in held])}
        for place, held in enumerate(holds, 1)
    ]
    if changed:
        contexts[4]["text"] = _text(rng, words, [facts[n] for n in holds[4]])
    return {
        "id": f"q{number}",
        "query": f"Who founded the {words['trade']} works of {words['town']}, and what became of them?",
        "reference": " ".join(facts),
        "response": " ".join(facts[:3]),
        "contexts": contexts,
        "qrels": {c["id"]: min(3, len(held)) for c, held in zip(contexts, holds, strict=True) if held},
    }


def _spread(rng: random.Random, facts: int) -> list[list[int]]:
    """Which facts each context holds: about four of ten hold any, and one fact is sometimes held by none."""
    holds: list[list[int]] = [[] for _ in range(CONTEXTS)]
    for fact in range(facts):
        for place in rng.sample(range(CONTEXTS), rng.randrange(3)):
            holds[place].append(fact)
    return holds


def _text(rng: random.Random, words: dict[str, Any], facts: list[str]) -> str:
    sentences = list(facts)
    while sum(map(len, sentences)) + len(sentences) < BYTES - 40:
        sentences.append(rng.choice(_NOISE).format(**{**_words(rng), "town": words["town"]}))
    rng.shuffle(sentences)
    return " ".join(sentences)


def _words(rng: random.Random) -> dict[str, Any]:
    year = rng.randrange(1500, 1890)
    return {
        "trade": rng.choice(_TRADES),
        "person": rng.choice(_PEOPLE),
        "family": rng.choice(_FIRST) + rng.choice(_LAST),
        "other": rng.choice(_FIRST) + rng.choice(_LAST),
        "sight": rng.choice(_SIGHTS),
        "year": year,
        "later": year + rng.randrange(20, 110),
        "number": rng.randrange(3, 900),
    }


def described(rows: list[dict[str, Any]]) -> str:
    """What the samples are, in one line."""
    sizes = [len(context["text"].encode()) / 4 for row in rows for context in row["contexts"]]
    return f"{len(rows)} samples x {CONTEXTS} contexts of {sum(sizes) / len(sizes):.0f} tokens"


def pairs(count: int, seed: int = 7) -> Iterator[tuple[str, str]]:
    """So many pairs of a query and a passage."""
    for row in samples(-(-count // CONTEXTS), seed):
        for context in row["contexts"]:
            if count <= 0:
                return
            count -= 1
            yield row["query"], context["text"]
