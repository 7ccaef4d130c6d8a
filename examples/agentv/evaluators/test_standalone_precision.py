# ruff: noqa: PT009 - these tests run with the standard library alone
"""Unit tests of the standalone evaluator: python -m unittest discover evaluators."""

import json
import unittest

from standalone_precision import grade, precision


class Precision(unittest.TestCase):
    """The formula, and a whole case."""

    def test_the_formula(self) -> None:
        """Perfect order, noise between, buried, nothing."""
        for relevant, score in (
            ([True, True, False], 1.0),
            ([True, False, True], (1 + 2 / 3) / 2),
            ([False] * 4 + [True], 0.2),
            ([False], 0.0),
            ([], 0.0),
        ):
            self.assertAlmostEqual(precision(relevant), score)

    def test_a_case(self) -> None:
        """A relevant passage below an irrelevant one is a hit and a miss."""
        answer = json.dumps(
            {"retrieved_context": ["Bicycles.", {"text": "Steep the coffee for four minutes."}]}
        )
        result = grade({"candidate_answer": answer, "expected_outcome": "four minutes"})
        self.assertAlmostEqual(result["score"], 0.5)
        self.assertEqual(len(result["hits"]), 1)
        self.assertEqual(
            result["misses"],
            ["Position 1: Not relevant", "Position 2: Relevant but ranked below irrelevant ones"],
        )

    def test_an_answer_without_passages(self) -> None:
        """It scores 0, and says so."""
        self.assertEqual(grade({"candidate_answer": "Four."})["score"], 0)


if __name__ == "__main__":
    unittest.main()
