"""The documents of `germane audit --json` and `germane validate --json`, as records. Their JSON Schemas are generated from here."""

from __future__ import annotations

from typing import Literal

from germane.encoding import Line
from germane.reports.summary import CorrectedSummary
from germane.statistics.agreement import Agreement, JudgeAgreement, Spread


class SystemsLine(Spread):
    """The same of systems, with the judge's `bias` on each."""

    bias: dict[str, float]


class KindLine(JudgeAgreement, kw_only=True):
    """The judge against people, on one kind of verdict and one scale.

    `base_rate` is the share that always giving people's commonest grade would reach; `illegal` counts the judge's grades
    outside the scale.
    """

    kind: str
    scale: str
    between_systems: SystemsLine | None


class PeopleLine(Agreement, kw_only=True):
    """The agreement of two people on the items that both labelled."""

    kind: str
    scale: str
    people: list[str]


class DisagreementLine(Line):
    """The number of `items` that several people labelled, and of those whose labels `differ`."""

    kind: str
    items: int
    differ: int


class ConsistencyLine(Line):
    """A judge against itself, on `n` verdicts that it was asked `times` times."""

    kind: str
    judge: str
    n: int
    times: int
    raw: float
    alpha_ordinal: float | None


class CorrectedMeasureLine(Line):
    """A judged mean, and what people's labels make of it; where they make nothing of it, `why`."""

    measure: str
    system: str
    judged: float | None
    corrected: CorrectedSummary | None
    why: str | None


class AuditDocument(Line):
    """The document of `germane audit --json`."""

    schema_version: Literal[1]
    judge: str | None
    kinds: list[KindLine]
    people: list[PeopleLine]
    disagreement: list[DisagreementLine]
    self_consistency: list[ConsistencyLine]
    corrected: list[CorrectedMeasureLine]
    warnings: list[str]


CheckName = Literal["duplicates", "leaks", "one-system gold", "dead gold", "classes", "width"]


class SetCheck(Line):
    """One check of a test set: of `of` queries or gold ids `count` are at fault.

    `width` counts the independent queries. `note` says what the figures mean, or why there are none.
    """

    name: CheckName
    status: Literal["ok", "warning", "not checked"]
    count: int | None
    of: int | None
    examples: list[str]
    note: str

    def __str__(self) -> str:
        examples = f" ({'; '.join(self.examples[:2])})" if self.status == "warning" and self.examples else ""
        return f"{self.name}: {self.status}: {self.note}{examples}"


class ValidationDocument(Line, kw_only=True):
    """The faults of all files, what could not be checked without importing it, and the checks of the test set in them."""

    schema_version: Literal[1] = 1
    exit_code: Literal[0, 2]
    files: int
    faults: list[str]
    not_checked: list[str]
    checks: list[SetCheck]
