"""`germane grade MEASURE`: one case on stdin, one graded result on stdout."""

from __future__ import annotations

from typing import Any


def grade(**flags: Any) -> int:
    """Grade one case: a code-judge document or a sample line on stdin, its score, hits, misses and reasoning on stdout.

    Options of a grader stand in the document's `config`, or are given here; which program a code_judge runs only here.
    Exit code 0 whenever there is a score, 3 when the judge failed, 2 on unusable input (nothing on stdout then).
    """
    from germane.addons.agentv.grading import grade_stdin  # not at the top: help needs none of it

    return grade_stdin(**flags)
