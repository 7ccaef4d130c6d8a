"""Which measures no sample can have: known from the samples alone, so it is said before anything is paid."""

from __future__ import annotations

from germane.errors import InputError
from germane.measures.labels import Settings
from germane.measures.scoring import Job, applicable

__all__ = ["Prospects"]


class Prospects:
    """Looks at jobs, and knows which measures could not be computed for any of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._missing: dict[tuple[str, str], str] = {}
        self._possible: set[tuple[str, str]] = set()

    def look(self, job: Job) -> None:
        """One more sample and its graders."""
        for grader in job.graders:
            name = (job.sample.system, grader.name)
            if name in self._possible:
                continue
            refusal = None if grader.script else applicable(grader.measure, job.sample, self._settings)
            if refusal is not None and refusal.status == "skipped":
                self._missing.setdefault(name, refusal.why or "")
            else:
                self._possible.add(name)

    def check(self) -> None:
        """InputError where a measure cannot be computed for any sample of a system."""
        for (system, measure), why in self._missing.items():
            if (system, measure) not in self._possible:
                of = f"sample of {system}" if system else "sample"
                raise InputError(
                    f"{measure} cannot be computed for any {of}: {why}",
                    fix="leave the measure out, or give the samples what it needs; nothing was asked",
                )
