"""The types of grader that an eval file can declare and that are no measures; scores are stored under them."""

from __future__ import annotations

from typing import Literal, get_args

Test = Literal["contains", "contains_any", "contains_all", "icontains", "icontains_any", "icontains_all",
               "starts_with", "ends_with", "equals", "regex", "is_json"]  # fmt: skip
"""The types of assertions on the answer's text."""

FORMULAS = {
    "code_judge": "what the script prints as score",
    "llm_judge": "the model's score; of a rubric: satisfied weight / whole weight",
    "field_accuracy": "weight of the matching fields / weight of all",
    "tool_trajectory": "expected calls that were made / expected calls",
    "latency": "1 within the threshold, else 0",
    "cost": "1 within the budget, else 0",
    "token_usage": "1 within the limits, else 0",
    "composite": "what the aggregator makes of the members' scores",
    **dict.fromkeys(get_args(Test), "1 where the answer passes the test, else 0"),
}
"""The meaning of a score, by the type of its grader; the types are AgentV's."""
