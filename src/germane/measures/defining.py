"""How a measure is declared, ours and a user's own.

`@measure` is for a program or a plain function of the sample, `@ranked_measure` for a formula on one ranking's labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from germane.errors import MeasureError
from germane.measures.measure import Definition, Measure, Param, Source, Value, define
from germane.measures.outcome import Result
from germane.measures.table import Floats, LabelTable
from germane.questions.asking import Program
from germane.types import Sample

__all__ = ["measure", "ranked_measure"]

Body: TypeAlias = Callable[..., Any]
Cutoff: TypeAlias = Literal["none", "optional", "required"]
Declare: TypeAlias = Callable[[Body], Measure]

_TYPES = (bool, int, float, str)
_REL = Param(int, None, "the lowest grade that counts as relevant; default 1 of gold, 2 of grades 0-3", low=1)
_OVER = Param(
    str, "calls", "several searches: the mean over them, or the final list alone", ("calls", "final")
)
_LABELS = Param(str, "judge", "whose labels are read", ("gold", "judge", "human", "best"))


@overload
def measure(name: Body, /) -> Measure: ...
@overload
def measure(
    name: str = "",
    *,
    needs: tuple[str, ...] = ...,
    formula: str = ...,
    reference: str = ...,
    nothing: str = ...,
    calls: str = ...,
    params: Mapping[str, Param] | None = ...,
    cutoff: Cutoff | None = ...,
    range: tuple[float, float] = ...,
    better: Literal["higher", "lower"] = ...,
    answerable: bool = ...,
    labels: Source | None = ...,
    when: Mapping[str, Value] | None = ...,
    aliases: tuple[str, ...] = ...,
    explain: Callable[..., Any] | None = ...,
) -> Declare: ...
def measure(name: str | Body = "", **said: Any) -> Measure | Declare:
    """Declare a measure; the decorated name becomes its Measure value.

    What is decorated takes the sample, then (by keyword) its parameters, `k` where it has a cut-off, and `settings`
    where it wants the evaluation's. It is a generator of questions, or a plain function where it asks nobody; it
    returns a number or an Outcome. Without a name its own is taken, without `params` its keyword defaults are the
    parameters. A sample that lacks one of `needs` is skipped before it starts.
    """
    if callable(name):
        return _declare(name, name.__name__, {})
    return lambda body: _declare(body, name or body.__name__, said)


def _declare(body: Body, name: str, said: Mapping[str, Any]) -> Measure:
    asks = inspect.isgeneratorfunction(body)
    takes = list(inspect.signature(body).parameters)
    known = {key: value for key, value in said.items() if value is not None}
    define(
        Definition(
            name=name,
            family="judged",
            compute=body if asks else _asking_nothing(body),
            settings="settings" in takes,
            **{
                "needs": ("contexts",),
                "formula": _first_line(body),
                "doc": inspect.getdoc(body) or "",
                "calls": "?" if asks else "0",
                "labels": "judge" if asks else "gold",
                **({} if "params" in known else {"params": _params_of(body, {"settings", "k", *takes[:1]})}),
                "cutoff": "optional" if "k" in takes else "none",
                **known,
            },
        )
    )
    return Measure(name, known.get("when", {}))


def _first_line(body: Body) -> str:
    return (inspect.getdoc(body) or "").partition("\n")[0]


def _asking_nothing(body: Body) -> Callable[..., Program[Result]]:
    def program(sample: Sample, **params: Any) -> Program[Result]:
        yield from ()
        return body(sample, **params)  # type: ignore[no-any-return]

    return program


def _params_of(body: Body, ours: set[str]) -> dict[str, Param]:
    """A function's own keyword parameters as parameters of the measure."""
    found = {}
    for name, given in inspect.signature(body).parameters.items():
        if name in ours:
            continue
        if type(given.default) not in _TYPES:
            given_names = (
                f"what it is given is called {', '.join(sorted(ours))}; " if "relevant" in ours else ""
            )
            raise MeasureError(
                f"{body.__name__}: the parameter {name} needs a default that is a number, a text, True or False",
                fix=f"{given_names}write {name}=1 for a parameter, or declare it with params=",
            )
        found[name] = Param(type(given.default), given.default, f"see {body.__name__}")
    return found


@overload
def ranked_measure(name: Body, /) -> Measure: ...
@overload
def ranked_measure(
    name: str = "",
    *,
    formula: str = ...,
    reference: str = ...,
    nothing: str = ...,
    labels: Source = ...,
    cutoff: Cutoff = ...,
    range: tuple[float, float] = ...,
    better: Literal["higher", "lower"] = ...,
    aliases: tuple[str, ...] = ...,
) -> Declare: ...
def ranked_measure(name: str | Body = "", **said: Any) -> Measure | Declare:
    """Declare a formula on one ranking: a plain function of its labels, best rank first, that returns a number.

    What it is given depends on the names of its arguments: `relevant` (a list of True and False), `grades` (what each
    place is worth; None = unjudged), `ideal` (the grades of all that is judged, best first), `k` (None = all). The
    lists are cut at k already. Further arguments with a default become parameters. Labels, threshold (`rel=`),
    several calls, missing verdicts and explanations are what they are for every ranked measure.
    """
    if callable(name):
        return _declare_ranked(name, name.__name__, {})
    return lambda body: _declare_ranked(body, name or body.__name__, said)


_GIVEN = {"relevant", "grades", "ideal", "k"}


def _declare_ranked(body: Body, name: str, said: Mapping[str, Any]) -> Measure:
    takes = frozenset(inspect.signature(body).parameters)
    labels = said.get("labels", "judge")
    params = {"labels": Param(str, labels, _LABELS.meaning, _LABELS.choices), "over": _OVER}
    if "relevant" in takes:
        params["rel"] = _REL
    define(
        Definition(
            name=name,
            family="ranked",
            compute=partial(_rows, body, takes),
            **{
                "needs": ("contexts",),
                "formula": _first_line(body),
                "doc": inspect.getdoc(body) or "",
                "params": {**_params_of(body, _GIVEN), **params},
                "labels": labels,
                "cutoff": "optional",
                **said,
            },
        )
    )
    return Measure(name)


def _rows(
    body: Body, takes: frozenset[str], table: LabelTable, params: Mapping[str, Any], k: int | None
) -> Floats:
    own = {name: params[name] for name in takes - _GIVEN}
    rel = params.get("rel") or table.rel
    values = []
    for row in range(table.rows):
        places = slice(*table.pointers[row : row + 2])
        ideal = slice(*table.ideal_pointers[row : row + 2])
        known = zip(table.gain[places].tolist(), table.judged[places].tolist(), strict=True)
        given = {
            "relevant": (table.level[places] >= rel).tolist()[:k],
            "grades": [gain if judged else None for gain, judged in known][:k],
            "ideal": table.ideal[ideal].tolist(),
            "k": k,
        }
        values.append(float(body(**{name: given[name] for name in takes & _GIVEN}, **own)))
    return np.array(values, dtype=np.float64)
