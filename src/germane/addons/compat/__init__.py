"""Classes and functions with other tools' interfaces, readers of their results, and a LiveRAG command."""

from pathlib import Path

from germane.addons import Addon, Reader
from germane.flags import DATA, MEASURES, OUTPUT, Flag

_RESULTS = "germane.addons.compat.results"

ADDON = Addon(
    about="Functions called like those of Ragas, DeepEval, Mastra and LiveRAG; results of Inspect, promptfoo, DeepEval.",
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
            "Score LiveRAG results against gold documents (recall, precision, F1, nDCG@10); writes .aggregated and .rows files.",
        )
    },
    flags=[
        Flag("--results", "liverag", DATA, "Read the retrieved documents: TSV, JSON or JSONL with qid and doc_ids.", Path, value="FILE", required=True),
        Flag("--reference", "liverag", DATA, "Read the gold documents: TSV, JSON or JSONL with qid and document_ids.", Path, value="FILE", required=True),
        Flag("--evaluator", "liverag", MEASURES, "Use this evaluator; only ContextRecall is supported, with or without its module path.", value="NAME", default="ContextRecall"),
        Flag("--parity", "liverag", MEASURES, "Compute exactly what LiveRAG's own script computes, including its quirks.", choices=("liverag",)),
        Flag("--output-dir", "liverag", OUTPUT, "Write the two files to this folder.", Path, value="DIR", default=Path("data/evaluation_results"), at_url="refused"),
        Flag("--output-prefix", "liverag", OUTPUT, "Begin the names of the two files with NAME. Default: the evaluator's name.", value="NAME"),
        Flag("--output-format", "liverag", OUTPUT, "Write the two files in this format.", default="tsv", choices=("tsv", "jsonl")),
    ],
)  # fmt: skip
