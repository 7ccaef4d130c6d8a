"""Classes and functions called like those of other tools, a command for LiveRAG, and result files."""

from pathlib import Path

from germane.addons import Addon, Reader
from germane.flags import DATA, MEASURES, OUTPUT, Flag

_RESULTS = "germane.addons.compat.results"

ADDON = Addon(
    about="The call shapes of Ragas, DeepEval, Mastra and LiveRAG; results of Inspect, promptfoo and DeepEval.",
    results={
        "inspect": Reader(
            f"{_RESULTS}:inspect_results",
            first=[["eval", "plan|samples"], ["header.json"], ["_journal/start.json"]],
        ),
        "promptfoo": Reader(
            f"{_RESULTS}:promptfoo_results",
            first=[["results.results[]"], ["promptIdx", "testIdx", "namedScores"]],
        ),
        "deepeval": Reader(
            f"{_RESULTS}:deepeval_results",
            first=[["test_results|testCases|testRunData.test_results|testRunData.testCases"], ["metrics_data|metricsData"]],
        ),
    },
    verbs={
        "liverag": (
            "germane.addons.compat.liverag_files:liverag",
            "Recall, precision, F1 and nDCG@10 of LiveRAG results against gold documents; writes .aggregated and .rows.",
        )
    },
    flags=[
        Flag("--results", "liverag", DATA, "What was retrieved: TSV, JSON or JSONL with qid and doc_ids.", Path, value="FILE", required=True),
        Flag("--reference", "liverag", DATA, "Gold: TSV, JSON or JSONL with qid and document_ids.", Path, value="FILE", required=True),
        Flag("--evaluator", "liverag", MEASURES, "ContextRecall, alone or at the end of a module path.", value="NAME", default="ContextRecall"),
        Flag("--parity", "liverag", MEASURES, "Compute as the original does, to its last quirk.", choices=("liverag",)),
        Flag("--output-dir", "liverag", OUTPUT, "Where the two files are written.", Path, value="DIR", default=Path("data/evaluation_results"), at_url="refused"),
        Flag("--output-prefix", "liverag", OUTPUT, "How the names of the two files begin; without it with the evaluator's.", value="NAME"),
        Flag("--output-format", "liverag", OUTPUT, "Format of the two files.", default="tsv", choices=("tsv", "jsonl")),
    ],
)  # fmt: skip
