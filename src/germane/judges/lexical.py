"""The lexical judge: a deterministic rule on word overlap, which needs no model and no network.

Word weights come from fixed lists and not from counts in the evaluation's texts, so that a verdict does not
depend on other texts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from germane.judges.judge import LocalJudge, Reply, trivial_answer
from germane.questions.kinds import Claims, Entities, StatementRelevance, Sufficiency, Support
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.questions.text import sentences, stem, stems, words
from germane.types import FrozenDict, Json

ON_TOPIC, HELPS, ANSWERS = 0.3, 0.6, 0.95  # the coverage from which a passage has grade 1, 2 and 3
BEARS = 0.5  # the coverage of the query, or a sentence of the reference, from which a statement is relevant
SUPPORTED = 0.75  # the coverage of a claim's words from which a context supports it
NAMED = 6  # the maximum number of words that a reasoning lists before "and N more"

_CITED = re.compile(r"\s{0,2}\[\d{1,3}(?:\s*[,-]\s*\d{1,3})*\]")

Rule: TypeAlias = Callable[[Any], Json]


class LexicalJudge(LocalJudge):
    """A judge that computes which proportion of the words of a query or claim a passage contains.

    It knows no synonyms, no negation and no meaning. Use it for demos, tests and smoke checks, not for decisions.
    """

    name = "lexical"
    # 2 cut words at soft hyphens and kept the dot of a folded \u0130
    identity = FrozenDict(judge="lexical", version=3)
    stored = True
    stand_in = (
        "lexical is a word-overlap rule that stands in for a model; on held-out queries of TREC DL 2023 its "
        "two-grade kappa with people is .16 (95% interval .04 to .25), and its order of systems is not people's: tau "
        "-.61 over the 36 runs of TREC DL 2019"
    )

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the rule's reply, or an error reply if there is no rule for this kind of question."""
        rule = _RULES.get(question.kind)
        if rule is None:
            return Reply(error=f"the judge lexical cannot answer questions of kind {question.kind}")
        return trivial_answer(question) or Reply(payload=rule(question))


def _relevance(question: Relevance) -> Json:
    """Grade by the proportion of the query's words in the passage.

    If there is a reference (or else a response), the mean with the proportion of the words of its best-covered
    sentence is used. One sentence is enough, because a passage can help without containing the whole answer.
    """
    names = stems(question.passage)
    query = terms(question.query)
    share, reasoning = coverage(query, names), reason("query", query, names)
    target = question.reference or question.response
    if target and (per_sentence := [terms(sentence) for sentence in sentences(target)]):
        best = max(per_sentence, key=lambda target_terms: coverage(target_terms, names))
        share = (share + coverage(best, names)) / 2
        reasoning = f"{reasoning}; {reason('reference' if question.reference else 'response', best, names)}"
    if question.scale == "binary":
        return {"relevant": share >= HELPS, "reasoning": reasoning}
    grade = sum(share >= threshold for threshold in (ON_TOPIC, HELPS, ANSWERS))
    return {"grade": grade, "reasoning": reasoning}


def _claims(question: Claims) -> Json:
    """Return each sentence as a claim, except questions, without citation marks."""
    texts = sentences(_CITED.sub("", question.text))
    asks = ("?", "\uff1f", "\u061f")
    return {"claims": [text for text in texts if words(text) and not text.rstrip("\"'”’»)").endswith(asks)]}


def _support(question: Support) -> Json:
    contexts = [stems(text) for text in question.contexts]
    return {"claims": [supported(n, claim, contexts) for n, claim in enumerate(question.claims, start=1)]}


def _statements(question: StatementRelevance) -> Json:
    """Return each sentence as a statement.

    It is relevant if it contains half of the words of the query or of a sentence of the reference (or
    response).
    """
    target = question.reference or question.response or ""
    targets = [terms(question.query), *map(terms, sentences(target))]
    result = []
    for sentence in sentences(question.passage):
        if statement_terms := stems(sentence):
            relevant = any(coverage(target_terms, statement_terms) >= BEARS for target_terms in targets)
            result.append({"statement": sentence, "relevant": relevant})
    return {"statements": result}


def _sufficiency(question: Sufficiency) -> Json:
    names = stems(question.about)
    query = terms(question.query)
    return {"reasoning": reason("query", query, names), "sufficient": coverage(query, names) >= ANSWERS}


def _missing(required: Terms, present: frozenset[str]) -> list[str]:
    return [word for stem, (word, _) in required.items() if stem not in present]


_RULES: dict[str, Rule] = {
    Relevance.kind: _relevance,
    StatementRelevance.kind: _statements,
    Entities.kind: lambda question: {"entities": names(question.text)},
    Claims.kind: _claims,
    Support.kind: _support,
    Sufficiency.kind: _sufficiency,
}


def coverage(required: Terms, present: frozenset[str]) -> float:
    """Return the proportion (0 to 1), by weight, of the `required` words whose stems are in `present`."""
    total = sum(weight for _, weight in required.values())
    share = sum(weight for stem, (_, weight) in required.items() if stem in present) / total if total else 0.0
    return round(share, 9)  # removes rounding errors, so that 3/5 equals 0.6 in comparisons


def reason(what: str, required: Terms, present: frozenset[str]) -> str:
    """Return a sentence on the words of the text `what` that a passage contains, and that it lacks."""
    if not required:
        return f"the {what} has no words"
    covered = [word for stem, (word, _) in required.items() if stem in present]
    missing = _missing(required, present)
    parts = [f"covers {few(covered)}"] * bool(covered) + [f"lacks {few(missing)}"] * bool(missing)
    return f"of the {what}'s words the passage {' and '.join(parts)}"


def few(names: Sequence[str]) -> str:
    """Return the first six names separated by commas, followed by "and N more" if there are others."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def supported(number: int, claim: str, contexts: Sequence[frozenset[str]]) -> Json:
    """Return the verdict on a claim, by the contexts' stems.

    It names all contexts that support the claim alone, or else the first two that support it together.
    """
    required = terms(claim)
    covered = [context.intersection(required) for context in contexts]
    alone = [position for position, present in enumerate(covered, start=1) if carries(required, present)]
    positions = alone or _pair(required, covered)
    if positions:
        present = frozenset[str]().union(*(covered[position - 1] for position in positions))
        why = f"{'one context covers' if alone else 'two contexts together cover'} the claim's words"
        if missing := few(_missing(required, present)):
            why += f", though no context has {missing}"
    else:
        closest = max(covered, key=lambda present: coverage(required, present), default=frozenset[str]())
        missing = few(_missing(required, closest))
        why = f"not enough of the claim's words in one context or two; the closest lacks {missing}"
    return {"claim": number, "contexts": positions, "reasoning": why}


def carries(required: Terms, present: frozenset[str]) -> bool:
    """Return True if the stems in `present` cover 75% of the words `required` (by weight) and all numbers."""
    numbers = all(stem in present for stem, (word, _) in required.items() if any(c.isdigit() for c in word))
    return numbers and coverage(required, present) >= SUPPORTED


def _pair(required: Terms, covered: Sequence[frozenset[str]]) -> list[int]:
    """Return the numbers of the first two contexts that support a claim together; [] if no pair does."""
    first = {kept: position for position, kept in reversed(list(enumerate(covered, start=1))) if kept}
    useful = sorted((position, kept) for kept, position in first.items())  # one context per set of words
    pairs = ([a, b] for (a, value), (b, other) in combinations(useful, 2) if carries(required, value | other))
    return next(pairs, [])


VERY_COMMON, COMMON, TELLING = 0.4, 0.7, 1.0  # English's 200 commonest content words, the next 800, others
Terms: TypeAlias = Mapping[str, tuple[str, float]]  # the word as it was written and its weight, by stem

_ACRONYM = re.compile(r"\b[A-Z]{2,}\b")


@lru_cache(maxsize=1)
def _weights() -> MappingProxyType[str, float]:
    lists = tomllib.loads((Path(__file__).parent / "common_words.toml").read_text("utf-8"))
    weights = dict.fromkeys(lists["first"].split(), VERY_COMMON)
    weights |= dict.fromkeys(lists["second"].split(), COMMON)
    weights |= dict.fromkeys(lists["function"].split(), 0.0)
    return MappingProxyType(weights)


@lru_cache(maxsize=4096)
def terms(text: str) -> Terms:
    """Return the content words of a text as {stem: (word, weight)}; of words with one stem, the heaviest.

    If the text consists of function words only, return all of its words with weight 1.
    """
    acronyms = set() if text.isupper() else {word.lower() for word in _ACRONYM.findall(text)}
    weights = {word: TELLING if word in acronyms else _weights().get(word, TELLING) for word in words(text)}
    telling = {word: weight for word, weight in weights.items() if weight} or dict.fromkeys(weights, TELLING)
    heaviest: dict[str, tuple[str, float]] = {}
    for word, weight in telling.items():
        of_word = stem(word)
        if weight > heaviest.get(of_word, ("", 0.0))[1]:
            heaviest[of_word] = word, weight
    return heaviest


_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?)"
)
_DATE = (
    rf"\d{{1,2}}\.?\s+{_MONTH}\.?(?:\s+\d{{3,4}})?|{_MONTH}\s+\d{{4}}|"
    rf"{_MONTH}\.?\s+\d{{1,2}}(?:,?\s+\d{{4}})?|"
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d+\u5e74(?:\d+\u6708)?(?:\d+\u65e5)?|\d+\u6708\d+\u65e5"
)
_NUMBER = r"\d+(?:[.,]\d+)*\s?(?:%|\u00b0[CF]?|[\u20ac$\u00a3])?"
_QUOTED = r"[\u300a\u300c\u300e]([^\u300b\u300d\u300f]{1,40})[\u300b\u300d\u300f]"
_KATAKANA = r"[\u30a1-\u30ff]{2,}(?:\u30fb[\u30a1-\u30ff]{2,})*"
_CAPITAL = r"[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f][^\W_]*(?:[-'\u2019&][^\W_]+)*"
_LINK = r"(?:of|the|de|da|do|la|le|van|von|der|und|and|al)"
_NAME = rf"{_CAPITAL}(?:(?:(?<=[^\w][A-Z])\.)?\s+(?:{_LINK}\s+){{0,2}}{_CAPITAL}|\s+\d+(?![\w.,])){{0,7}}"
_ENTITY = re.compile(
    rf"(?P<date>{_DATE})|(?P<name>{_NAME})|(?P<number>{_NUMBER})|{_QUOTED}|(?P<katakana>{_KATAKANA})"
)

_STARTS = re.compile(r"(?:[.!?:;\n\u2022*-]\s*)[\"'(\[\u201c\u2018\u00ab\s]*\Z")


def names(text: str) -> list[str]:
    """Return the names, dates and numbers in a text, in order, without repeats.

    A name is a run of capitalized words; in Chinese and Japanese, the text in title marks or in Katakana. A
    single word that begins a sentence is a name unless it is common or also occurs in lower case.
    """
    results = list(_candidates(text))
    inside = {name for name, first in results if not first}
    small = {word for word in re.findall(r"[^\W_]+", text) if word.islower()}
    kept = (
        name
        for name, first in results
        if not first or name in inside or not (name.lower() in _weights() or name.lower() in small)
    )
    return list(dict.fromkeys(kept))


def _candidates(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each possible name, date or number, and True if it is a single word that begins a sentence."""
    at = 0
    while match := _ENTITY.search(text, at):
        at = match.end()
        name = match["name"]
        first = name.split()[0] if name else ""
        if first and _weights().get(first.lower()) == 0.0:  # a function word is not part of a name
            at = match.start() + len(first)  # "On July 4": search again after "On"
            continue
        before = text[max(0, match.start() - 8) : match.start()]
        candidate = " ".join(next(filter(None, match.groups()), match[0]).strip(" .,").split())
        single = name is not None and " " not in candidate
        if candidate:
            yield candidate, single and (match.start() == 0 or _STARTS.search(before) is not None)
