"""Draft a test set from a corpus: questions with gold quoted from the text, and how easy they are."""

from pathlib import Path

from germane.addons import Addon
from germane.flags import DATA, JUDGE, MONEY, OUTPUT, Flag, borrowed

_HERE = "germane.addons.draft"

ADDON = Addon(
    about="Test sets drafted from a corpus by a model, with gold quoted from the text and a measured difficulty.",
    verbs={
        "draft": (
            f"{_HERE}.verb:draft",
            "Draft a test set from a corpus: questions, answers, gold quotes, and why questions were rejected.",
        )
    },
    questions={"draft": f"{_HERE}.questions:Draft", "standalone": f"{_HERE}.questions:Standalone"},
    labellers={"draft.json": f"{_HERE}.document:label"},
    flags=[
        Flag("CORPUS", "draft", DATA, "Read the documents from a file with one row per document (id, text), a BEIR folder, or a folder of text files.", Path),
        Flag("-n --number", "draft", DATA, "Draft N questions.", int, value="N", default=50, least=1),
        Flag("--judge", "draft", JUDGE, "Check the questions with this model, e.g. openai:gpt-4o-mini."),
        Flag("--writer", "draft", JUDGE, "Write the questions with this model. Default: the judge."),
        Flag("--mix", "draft", DATA, "Set the share of each kind of question.", value="SHARES", default="direct=45 paraphrased=40 near-miss=15"),
        Flag("--style", "draft", DATA, "Set the share of each style of question; the style is drawn independently of the kind.", value="SHARES", default="question=60 keywords=25 long=15"),
        Flag("--like", "draft", DATA, "Read real questions (samples, traces, or one question per line): 6 are shown to the writer, and the difficulty of the draft is compared with all of them.", Path, value="FILE"),
        Flag("--language", "draft", DATA, "Write the questions in this language. Default: the language of the passage.", value="NAME"),
        Flag("--pool", "draft", DATA, "Read your retriever's results (samples or a TREC run, matched by question id), to find other documents that answer a question, as with BM25; they never become gold; repeatable.", Path, value="RUN", many=True),
        Flag("--target", "draft", DATA, "Query your retriever for the same purpose as --pool.", value="NAME"),
        Flag("--seed", "draft", DATA, "Set the random seed for drawing passages.", int, value="N", default=0),
        Flag("--allow-personal", "draft", DATA, "Accept questions that contain e-mail addresses, telephone numbers or account numbers.", bool),
        Flag("-o --output", "draft", OUTPUT, "Write the test set to this folder.", Path, value="DIR", default=Path("evals/draft"), at_url="refused"),
        Flag("--dry-run", "draft", MONEY, "Print the expected calls, tokens and price, and what would be sent; make no calls.", bool),
        Flag("--drop-bad", "label", OUTPUT, "Rewrite samples.jsonl of a drafted test set without the questions labelled as bad.", bool),
        Flag("--max-cost", "draft", MONEY, "Stop before the models cost more than this; repeat the command to continue.", float, value="USD", least=0),
        Flag("--max-calls", "draft", MONEY, "Stop after N calls of the models; repeat the command to continue.", int, value="N", least=0),
        *borrowed("draft", "--targets", "--base-url", "--header", "--model-parameter", "--temperature", "--rpm", "--tpm", "--timeout",
                  "--jobs", "--price", "--ledger", "--replay", "--no-cache", "--json"),
    ],
)  # fmt: skip
