"""Decisions models: asked a typed question about a text, they answer with a probability for each level.

How relevant a passage is, is put as a score whose levels are the grades of the prompt. What comes back is a distribution:
it is kept in the judgement, and the grade is its mode.
"""

from __future__ import annotations

import re

from germane.errors import InputError

LEVEL = re.compile(r"(\d|true|false): *(.+)")
LEVELS = {"grade": ("0", "1", "2", "3"), "relevant": ("false", "true")}


def check_levels(name: str, text: str, *, template: bool) -> None:
    """Raise InputError if a prompt does not say what each level means."""
    names = LEVELS["relevant" if name.endswith("_binary") else "grade"]
    levels = [match[1] for line in text.split("\n") if (match := LEVEL.fullmatch(line))]
    if template or sorted(levels) != sorted(names):
        lines = ", ".join(f'"{level}: ..."' for level in names)
        problem = (
            f"the prompt {name} is not one for a decisions model, which is given the levels of its answer"
        )
        raise InputError(problem, fix=f"write a line for each level, {lines}, and no variables")
