"""Draft a test set from a corpus: questions with gold quoted from the text, and how easy they are."""

from pathlib import Path

from germane.addons import Addon
from germane.flags import DATA, JUDGE, MONEY, OUTPUT, Flag, borrowed

_HERE = "germane.addons.draft"

ADDON = Addon(
    about="A test set drafted from a corpus by a model, with gold that stands in the text and an ease that is known.",
    verbs={
        "draft": (
            f"{_HERE}.verb:draft",
            "Draft a test set from a corpus: questions, answers and gold quotes, every dropped one with its reason.",
        )
    },
    questions={"draft": f"{_HERE}.questions:Draft", "standalone": f"{_HERE}.questions:Standalone"},
    labellers={"draft.json": f"{_HERE}.document:label"},
    flags=[
        Flag("CORPUS", "draft", DATA, "The documents: a file with a row each (id, text), a BEIR folder, or a folder of text files.", Path),
        Flag("-n --number", "draft", DATA, "Questions to keep.", int, value="N", default=50, least=1),
        Flag("--judge", "draft", JUDGE, "The model that checks (openai:gpt-4o-mini)."),
        Flag("--writer", "draft", JUDGE, "The model that writes. Default: the judge."),
        Flag("--mix", "draft", DATA, "Shares of the kinds of question.", value="SHARES", default="direct=45 paraphrased=40 near-miss=15"),
        Flag("--style", "draft", DATA, "Shares of the styles, drawn independently of the kind.", value="SHARES", default="question=60 keywords=25 long=15"),
        Flag("--like", "draft", DATA, "Real questions (samples, traces, or one a line): 6 are shown to the writer, all are what ease is compared with.", Path, value="FILE"),
        Flag("--language", "draft", DATA, "The language of the questions. Default: the passage's.", value="NAME"),
        Flag("--pool", "draft", DATA, "Results of your retriever (samples, or a TREC run, by the questions' ids), searched beside BM25 for rivals, never for gold; repeatable.", Path, value="RUN", many=True),
        Flag("--target", "draft", DATA, "Your retriever, asked live beside BM25, as --pool.", value="NAME"),
        Flag("--seed", "draft", DATA, "Random seed of the draw.", int, value="N", default=0),
        Flag("--allow-personal", "draft", DATA, "Keep questions with e-mail addresses, telephone and account numbers.", bool),
        Flag("-o --output", "draft", OUTPUT, "The folder to write.", Path, value="DIR", default=Path("evals/draft"), at_url="refused"),
        Flag("--dry-run", "draft", MONEY, "Print calls, tokens and price, and what would be sent; make no calls.", bool),
        Flag("--drop-bad", "label", OUTPUT, "Of a drafted set: rewrite samples.jsonl without the questions found bad.", bool),
        *borrowed("draft", "run", "--targets", "--base-url", "--header", "--model-parameter", "--temperature", "--rpm", "--tpm", "--timeout",
                  "--jobs", "--price", "--max-cost", "--max-calls", "--ledger", "--replay", "--no-cache", "--json"),
    ],
)  # fmt: skip
