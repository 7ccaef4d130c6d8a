"""Measures that ask: each reads like its definition. Pure generators, no model and no event loop in sight."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from germane.judging.programs import Program, ask
from germane.judging.questions import Claims, Support, texts_of
from germane.measures.labels import distinct_contexts
from germane.measures.measure import Definition, Measure, Param, define
from germane.measures.outcome import Outcome, Result, ok, proportion
from germane.types import Sample

__all__ = ["context_recall", "measure"]

Body: TypeAlias = Callable[..., Program[Result]]


def measure(
    name: str,
    *,
    needs: tuple[str, ...],
    formula: str = "",
    reference: str = "",
    nothing: str = "",
    calls: str = "?",
    params: Mapping[str, Param] | None = None,
    cutoff: Literal["none", "optional", "required"] = "none",
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002 - the field's word
    aliases: tuple[str, ...] = (),
    explain: Callable[..., Any] | None = None,
) -> Callable[[Body], Measure]:
    """Register a generator of questions as a measure; the decorated name becomes its Measure value.

    The generator takes the sample, then its parameters by keyword (and `k` where it has a cut-off). A sample
    that lacks one of `needs` is skipped before the generator is started. It returns a number or an Outcome.
    A plain function that asks nothing may return its number at once.
    """

    def register(body: Body) -> Measure:
        define(
            Definition(
                name=name,
                family="judged",
                compute=body if inspect.isgeneratorfunction(body) else _asking_nothing(body),
                needs=needs,
                formula=formula,
                doc=inspect.getdoc(body) or "",
                reference=reference,
                nothing=nothing,
                params=dict(params or {}),
                cutoff=cutoff,
                labels="judge",
                range=range,
                calls=calls,
                aliases=aliases,
                explain=explain,
            )
        )
        return Measure(name)

    return register


def _asking_nothing(body: Callable[..., Any]) -> Body:
    def program(sample: Sample, **params: Any) -> Program[Result]:
        yield from ()
        return body(sample, **params)  # type: ignore[no-any-return]

    return program


@measure(
    "context_recall",
    needs=("contexts", "reference"),
    formula="supported claims of the reference / all its claims",
    reference="Es et al., RAGAS (2023); the claims are asked once, their support by all contexts in one question",
    nothing="no claims in the reference: skipped; nothing retrieved: 0",
    calls="1 a reference + 1 a sample",
    aliases=("contextual_recall",),
)
def context_recall(sample: Sample) -> Program[Outcome]:
    """Share of the reference's claims that the retrieved contexts support, alone or together."""
    contexts = distinct_contexts(sample)
    if not contexts:
        return ok(0.0)
    claims = yield from ask(Claims(sample.reference or ""))
    if not claims:
        return proportion((), nothing="the reference makes no claims")
    support = yield from ask(Support(claims, texts_of(contexts)))
    return proportion([bool(verdict.contexts) for verdict in support])
