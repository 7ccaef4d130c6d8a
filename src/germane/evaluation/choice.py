"""Choose the judge, the ledger and the default measures. Flags > eval file > environment > config.

A resumed evaluation uses the judge and the ledger that it began with, and the answers of earlier sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from germane.clean import mask_urls
from germane.encoding import decode, encode
from germane.errors import InputError
from germane.evaluation.spec import OPTIONS, Spec, environment, read_config
from germane.judges.judge import Judge
from germane.judges.panel import panel_of
from germane.measures.declaration import no_judge
from germane.types import Json, Sample

__all__ = [
    "ledger_address",
    "ledger_of",
    "pick_judge",
]


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
