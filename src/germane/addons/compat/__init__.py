"""Classes and functions called like those of Ragas, DeepEval and Mastra, and a command for LiveRAG."""

from pathlib import Path

from germane.addons import Addon
from germane.flags import DATA, MEASURES, OUTPUT, Flag

ADDON = Addon(
    about="The call shapes of Ragas, DeepEval, Mastra and LiveRAG, so that a program for them needs another import and no more.",
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
