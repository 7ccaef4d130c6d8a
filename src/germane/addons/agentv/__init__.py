"""AgentV's eval files, result files and graders, which grade an answer by a script, a model or rules."""

from germane.addons import Addon, Dialect, GraderType, Reader
from germane.flags import JUDGE, MEASURES, Flag, borrowed

_HERE = "germane.addons.agentv"
_ASSERTION = f"{_HERE}.graders.rules:TextAssertion"
_TESTS = ("contains", "icontains", "starts_with", "ends_with", "equals", "regex", "is_json")

ADDON = Addon(
    about="AgentV's eval files (old and new format), its graders, its protocol for scripts and its result rows.",
    dialects={
        "agentv": Dialect(
            f"{_HERE}.evalfile:read_file",
            keys=(
                "evalcases", "tests", "cases", "execution", "evaluators", "assertions", "assert", "compatibility", "dataset", "defaults",
                "vars", "input", "input_files", "default_test", "threshold",
            ),
        )
    },
    graders={
        "llm_judge": GraderType(f"{_HERE}.graders.llm_grader:LLMGrader", "the model's score; for a rubric: satisfied weight / total weight",
                                aliases=("llm_grader", "rubric", "rubrics")),
        "code_judge": GraderType(f"{_HERE}.graders.code_grader:CodeGrader", "the score printed by the script", aliases=("code_grader", "script")),
        "field_accuracy": GraderType(f"{_HERE}.graders.field_accuracy:FieldAccuracy", "weight of the matching fields / weight of all"),
        "tool_trajectory": GraderType(f"{_HERE}.graders.rules:ToolTrajectory", "expected calls that were made / expected calls"),
        "latency": GraderType(f"{_HERE}.graders.rules:Latency", "1 if within the threshold, else 0"),
        "cost": GraderType(f"{_HERE}.graders.rules:Cost", "1 if within the budget, else 0"),
        "token_usage": GraderType(f"{_HERE}.graders.rules:TokenUsage", "1 if within the limits, else 0"),
        "composite": GraderType(
            f"{_HERE}.graders.composite:Composite", "the members' scores, combined by the aggregator", aliases=("assert_set",)
        ),
        **{test: GraderType(_ASSERTION, "1 if the answer passes the test, else 0", fixed={"test": test}) for test in _TESTS},
    },
    questions={
        "script": f"{_HERE}.graders.code_grader:ScriptGrade",
        "completion": f"{_HERE}.graders.code_grader:TextCompletion",
        "llm_judge": f"{_HERE}.graders.llm_grader:FreeForm",
        "rubric": f"{_HERE}.graders.llm_grader:RubricQuestion",
    },
    verbs={
        "grade": (
            f"{_HERE}.grading:grade_stdin",
            "Grade one case: read a code-judge document or a sample from stdin, and print its score, hits, misses and reasoning.",
        )
    },
    flags=[
        Flag("MEASURE", "grade", MEASURES, "Compute this measure, e.g. context_precision@5.", name="measure"),
        Flag("--judge", "grade", JUDGE,
             "Use this judge: people's labels (labels), word overlap (lexical) or a model (PROVIDER:MODEL)."),
        *borrowed("grade", "--base-url", "--against", "--scale", "--ledger", "--no-cache"),
    ],
    results={"agentv": Reader(f"{_HERE}.results:results_of", first=[["test_id|eval_id", "execution_status"], ["test_id|eval_id", "scores[]"]])},
    writers={"index.jsonl": f"{_HERE}.results:index_rows"},
)  # fmt: skip
