"""What a run is told: by flags, by the manifest of the run that it continues, by the project's config."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from germane.config import read_config
from germane.setup import JudgeOptions
from germane.types import Json

__all__ = ["Options", "configured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JudgeOptions):
    """What a run is told, as plain JSON values: kept in the manifest, so that `--resume` needs nothing else.

    But for headers, which may hold keys.
    """

    paths: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    judge: str | None = None
    against: str | None = None
    scale: str | None = None
    targets: tuple[str, ...] = ()
    targets_file: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    doc_id: str | None = None
    wanted: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    gates: tuple[str, ...] = ()
    max_unmeasured: float = 0.05
    ledger: str | None = None
    no_cache: bool = False
    max_cost: float | None = None
    max_calls: int | None = None
    folder: str = ""
    outputs: tuple[str, ...] = ()

    def over(self, stored: dict[str, Json], cwd: str = "") -> Options:
        """These options where they say something, else the stored ones, whose files stood in the folder `cwd`."""
        stored = {**stored, **_placed(stored, Path(cwd))}
        default = asdict(Options())
        said = {name: value for name, value in asdict(self).items() if value != default[name]}
        return Options(**{**_tuples({name: stored[name] for name in default if name in stored}), **said})


def _placed(stored: dict[str, Json], cwd: Path) -> dict[str, Json]:
    """Stored paths as they are found from elsewhere; where nothing stands there any more, as they were written."""
    if cwd == Path.cwd() or not cwd.is_dir():
        return {}

    def found(path: str) -> str:
        return str(cwd / path) if (cwd / path).exists() else path

    placed: dict[str, Json] = {
        "paths": tuple(map(found, stored.get("paths") or ())),
        "outputs": tuple([str(cwd / path) for path in stored.get("outputs") or ()]),
    }
    if stored.get("targets_file"):
        placed["targets_file"] = found(stored["targets_file"])
    return placed


def _tuples(values: dict[str, Json]) -> dict[str, Json]:
    """JSON lists as the tuples that they were."""
    deep = {
        name: [tuple(v) if isinstance(v, list) else v for v in value]
        for name, value in values.items()
        if isinstance(value, list)
    }
    return {**values, **{name: tuple(value) for name, value in deep.items()}}


def configured(options: Options) -> Options:
    """The options, with what the project's config says where no flag says it."""
    config, default = read_config(Path.cwd()), Options()
    given = {name: config.get(name) for name in ("against", "scale", "max_unmeasured", "jobs", "gates")}
    if isinstance(given["gates"], str):
        given["gates"] = (given["gates"],)
    unsaid = {
        name: value
        for name, value in given.items()
        if value is not None and getattr(options, name) == getattr(default, name)
    }
    return replace(options, **unsaid)
