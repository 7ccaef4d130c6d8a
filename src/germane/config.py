"""Settings from `[tool.germane]` in pyproject.toml, or from germane.toml. Flags > environment > file > default."""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from germane.errors import InputError, Place
from germane.types import FrozenDict, Json

__all__ = ["Config", "read_config"]

_KEYS: dict[str, tuple[type, ...]] = {
    "judge": (str, list),
    "repeat": (int,),
    "vote": (str,),
    "batch": (int,),
    "reading": (str,),
    "measures": (list, str),
    "gates": (list, str),
    "ledger": (str,),
    "against": (str,),
    "scale": (str,),
    "max_unmeasured": (float, int),
    "jobs": (int,),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What a project's file says; `folder` is where it stands (paths in it are relative to that)."""

    values: FrozenDict
    folder: Path | None = None

    def get(self, name: str) -> Json:
        """A setting, or None."""
        return self.values.get(name)


def read_config(start: Path) -> Config:
    """The nearest germane.toml, or pyproject.toml that has `[tool.germane]`, from `start` upwards."""
    for folder in (start, *start.parents):
        for name in ("germane.toml", "pyproject.toml"):
            if (file := folder / name).is_file():
                table = _table(file)
                if table is not None:
                    return Config(_checked(table, file), folder)
    return Config(FrozenDict())


def _table(file: Path) -> dict[str, Json] | None:
    try:
        document = tomllib.loads(file.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML: {error}", fix="mend the file", place=Place(str(file))) from None
    return document if file.name == "germane.toml" else document.get("tool", {}).get("germane")


def _checked(table: dict[str, Json], file: Path) -> FrozenDict:
    known = {}
    for name, value in table.items():
        key = name.replace("-", "_")
        key = "measures" if key == "metrics" else key
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            fix = f"did you mean {near[0]}?" if near else f"known settings: {', '.join(_KEYS)}"
            raise InputError(f"there is no setting {name!r}", fix=fix, place=Place(str(file)))
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            wanted = " or ".join(kind.__name__ for kind in _KEYS[key])
            raise InputError(
                f"{name} must be {wanted}, not {value!r}", fix="mend the value", place=Place(str(file))
            )
        known[key] = value
    return FrozenDict(known)


def judge_from_environment() -> str | None:
    """GERMANE_JUDGE, where it names one."""
    return os.environ.get("GERMANE_JUDGE", "").strip() or None
