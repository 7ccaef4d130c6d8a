"""Maps names of other programs' measures to germane's name, the range, and True if more is better."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from germane.clean import fold
from germane.errors import InputError, option
from germane.measures.measure import Declared, Measure, declared

Range = tuple[float, float]
SHARE, ANY, COUNT = (0.0, 1.0), (-math.inf, math.inf), (0.0, math.inf)

KNOWN: Sequence[tuple[str, Range, bool]] = (
    # measures of trec_eval and ir_measures that germane does not compute
    (r"infap|rprecmult.*|11ptavg|setmap|(set)?relativep.*|rndcg|ndcgrel|g|bing|compat.*|inst.*|bpm.*|n?nrbp.*|n?err_?ia.*|apia.*|pia.*", SHARE, True),
    (r"gmmap|gmbpref|yaap|sdcg.*|utility.*", ANY, True),
    (r"num(nonrel|q).*|unj.*", COUNT, False),
    (r"rbpresid.*", SHARE, False),
    # MLflow's judged metrics, whose grades are 1 to 5
    (r"(answer(similarity|correctness|relevance)|relevance|faithfulness)/v\d+/score", (1.0, 5.0), True),
    (r"(ari|fleschkincaid)gradelevel(/v\d+/score)?", ANY, False),
    # all programs: counts and costs
    (r".*(latency|duration|seconds|runtime|cost|costusd|price|tokens|tokencount)(ms|s)?(/v\d+/score)?", COUNT, False),
    (r"perplexity|loss|mae|mse|rmse", COUNT, False),
    (r"wer|cer|worderrorrate|charactererrorrate", COUNT, False),
    # all programs: proportions
    (r"toxicity/v\d+/score|errorrate", SHARE, False),
    (r"accuracy|exactmatch(/v\d+)?|match|includes|pass|passed|success|correct|correctness.*", SHARE, True),
    (r"exact|choice|modelgraded(qa|fact)|i?contains(any|all)?|equals|llmrubric|factuality", SHARE, True),
    (r"f1|f1score|precision|recall|rouge.*|bertscore.*|meteor|semanticsimilarity|similar|cosinesimilarity", SHARE, True),
    (r"contextual(precision|recall|relevancy)|answerrelevancy|answerrelevance|contextrelevance|faithfulness", SHARE, True),
    (r"context(recall|precision|faithfulness)|summarization|rolead?herence|taskcompletion|toolcorrectness", SHARE, True),
    (r"(answer|factual)correctness.*|answersimilarity|contextentityrecall|contextutili[sz]ation|(non)?llmcontext(precision|recall).*", SHARE, True),
    (r"noisesensitivity.*", SHARE, False),
    (r"knowledgeretention|conversationcompleteness|promptalignment|jsoncorrectness|.*\[geval\]", SHARE, True),
)  # fmt: skip
"""Measures of other programs: a pattern of the folded name, the range, and True if more is better."""
LESS = re.compile(
    r"latency|costs?|errors?|loss|toxic(ity)?|bias|hallucinations?|perplexity|duration|time|timeouts?|leak(s|age)?|violations?"
    r"|harm(ful|fulness)?|fail(ures?)?|risk|noise|unsafe|invalid"
)
"""Words in the name of an unknown measure from which it follows that less is better."""


def is_measure(name: str) -> bool:
    """Return True if `name` is a spelling of one of germane's ranking measures, such as ndcg_cut_10."""
    return _parsed(name) is not None


def is_known(name: str) -> bool:
    """Return True if `name` is a ranking measure or in `KNOWN`, the measures of other programs."""
    return is_measure(name) or any(re.fullmatch(names, fold(name)) for names, *_ in KNOWN)


def canonical_measure(name: str) -> str:
    """Return germane's name of a ranking measure, such as nDCG@10 for ndcg_cut_10, or the plain name."""
    return str(_parsed(name) or _plain(name))


def _plain(name: str) -> str:
    """Return a measure's name without MLflow's suffix /score or /value, except after a version."""
    return re.sub(r"(?<!/v\d)/(score|value)$", "", name.strip())


@lru_cache(4096)
def _parsed(name: str) -> Measure | None:
    text = name.strip()
    plain = _plain(text)
    for spelling in dict.fromkeys((text, plain, re.sub(r"_at_(\d+)$", r"@\1", plain))):
        if re.search(r"[:/\\]", spelling):  # it could be a file name, and the file would be loaded
            continue
        with suppress(InputError):
            measure = Measure.parse(spelling)
            if measure.definition.family == "ranked":
                return measure
    return None


def parse_ranges(texts: Iterable[str] | Mapping[str, Range]) -> dict[str, Range]:
    """Return the ranges in strings such as 'cost=0..5' by the measure's canonical name.

    A mapping from names to ranges is accepted too. Raises InputError if a string has another form.
    """
    result = {}
    if isinstance(texts, Mapping):
        texts = [f"{name}={low}..{high}" for name, (low, high) in texts.items()]
    for text in [texts] if isinstance(texts, str) else texts:
        name, _, ends = text.rpartition("=")
        least, dots, most = ends.partition("..")
        try:
            low, high = float(least or "-inf"), float(most or "inf")
        except ValueError:
            low = high = math.nan
        if not (name.strip() and dots and low < high):
            fix = "write 'cost=0..5', or 'cost=0..' for a range without a largest value"
            problem = f"{option('--range', 'ranges')} {text!r} is not MEASURE=LOW..HIGH, with LOW below HIGH"
            raise InputError(problem, fix=fix)
        result[canonical_measure(name)] = low, high
    return result


def parse_directions(texts: Iterable[str] | Mapping[str, bool]) -> dict[str, bool]:
    """Return a mapping from a measure's canonical name to True if more is better.

    The strings are of the form 'helpfulness' (more is better) or 'cost=no' (less is better). Raises
    InputError if a string has another form.
    """
    result = {}
    if isinstance(texts, Mapping):
        texts = [f"{name}={value}" for name, value in texts.items()]
    for text in [texts] if isinstance(texts, str) else texts:
        stated = "=" in text[text.rfind(")") + 1 :]  # the = in AP(rel=2) belongs to a parameter
        name, _, word = text.rpartition("=") if stated else (text, "", "yes")
        better = {"yes": True, "true": True, "no": False, "false": False}.get(word.strip().casefold())
        if better is None or not name.strip():
            fix = "write 'helpfulness' if more is better, 'cost=no' if less is better"
            problem = f"{option('--higher-is-better')} {text!r} is not of the form MEASURE or MEASURE=no"
            raise InputError(problem, fix=fix)
        result[canonical_measure(name)] = better
    return result


def types_of(
    scores: Iterable[tuple[str, float | None, bool | None]],
    others: Mapping[str, str],
    ranges: Mapping[str, Range],
    directions: Mapping[str, bool],
) -> tuple[dict[str, str], list[str]]:
    """Return a mapping from each measure in result files to its type, and notes on guesses.

    A type is a string that tells the name, the range and the direction. `scores` contains
    each row's measure, value and direction (True if more is better, None if the file does not say). `others`
    maps measures to their types in the reports with which the files are compared. `ranges` and `directions`
    come from the user and take precedence. Raises InputError if the user named a measure that no file
    contains, if a value is outside its range, or if two files disagree on the direction.
    """
    values, exported = dict[str, list[float]](), dict[str, bool]()
    for name, value, higher in scores:
        values.setdefault(name, []).extend([] if value is None else [value])
        if higher is not None and exported.setdefault(name, higher) != higher:
            problem = f"for the measure {name}, more is better in one result file and less in another"
            raise InputError(problem, fix="write both files with the same version of the program")
    for flag, names in ((option("--range", "ranges"), ranges), (option("--higher-is-better"), directions)):
        if unknown := next((name for name in names if name not in values), None):
            problem = f"{flag} names the measure {unknown}, which no result file has"
            fix = f"leave out {flag}: report folders need none"
            fix = f"name one of {', '.join(values)}" if values else fix
            raise InputError(problem, fix=fix)
    types: dict[str, str] = {}
    guesses: dict[str, list[str]] = {}
    for name, all_values in values.items():
        least, most = min(all_values, default=0.0), max(all_values, default=1.0)
        other = others.get(name)
        canonical = other or str(_parsed(name) or "")
        known = _own(canonical) if canonical else None
        if known is None:
            spans = ((span, higher) for names, span, higher in KNOWN if re.fullmatch(names, fold(name)))
            known = next((Declared(span, higher) for span, higher in spans), None)
        guess = ANY if least < 0 else COUNT if most > 1 else SHARE
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)  # response, Time and ms of responseTime_ms
        usual = known or Declared(guess, not any(LESS.fullmatch(word.lower()) for word in words))
        span = ranges.get(name, usual.range)
        stated = Declared(span, directions.get(name, exported.get(name, usual.higher)))
        if least < span[0] or most > span[1]:
            wrong = least if least < span[0] else most
            problem = f"the measure {name} is {wrong:g} in a result file, outside its range {span[0]:g} to {span[1]:g}"
            fix = f"give the range, {option('--range ', 'ranges=')}'{name}=0..100', or correct the value"
            raise InputError(problem, fix=fix)
        if not (known or (name in ranges and name in {*directions, *exported})):
            ends = "without a range" if math.isinf(span[1]) else f"{span[0]:g} to {span[1]:g}"
            guesses.setdefault(f"{ends}, {stated.better} is better", []).append(name)
        plain = other or name
        types[name] = plain if stated == _own(plain) else stated.type_of(name)
    fix = f"correct this with {option('--range NAME=LOW..HIGH', 'ranges={NAME: (LOW, HIGH)}')} and "
    fix += option("--higher-is-better NAME[=no]", "higher_is_better={NAME: False}")
    notes = [
        f"{', '.join(unnamed)}: unknown measure, assumed to be {what}; {fix}"
        for what, unnamed in guesses.items()
    ]
    return types, notes


def _own(canonical: str) -> Declared:
    """Return the range and direction of a measure type; 0 to 1 and more is better if it is unknown."""
    measure = None
    if (stated := declared(canonical)) is None and not re.search(r"[:/\\]", canonical):
        with suppress(InputError):
            measure = Measure.parse(canonical)
    if measure is None:
        return stated or Declared(SHARE, higher=True)
    return Declared(measure.definition.range, measure.definition.better == "higher")
