"""Send questions in OpenAI's batches at half the price, or write them to a file for another engine, and read the answers back."""

from pathlib import Path

from germane.addons import Addon, Source
from germane.flags import DATA, MONEY, OUTPUT, Flag, borrowed

_HERE = "germane.addons.batches"

ADDON = Addon(
    about="Questions that wait: in a provider's batches at half the price, or in a file for another engine.",
    sources={"batches": Source(f"{_HERE}.rounds:Later", options=["later"])},
    verbs={
        "questions": (f"{_HERE}.verbs:questions", "Export the requests that a run would send, for another engine."),
        "answers": (f"{_HERE}.verbs:answers", "Read an engine's answers to the requests of `germane questions` into the ledger."),
    },
    flags=[
        Flag("--later", "run", MONEY, "Use the provider's batch API, at half price: send the batches and exit; --resume REPORT --later fetches them.", bool, holds="command"),
        Flag("PATH...", "questions", DATA, "Eval files, samples, folders, or a report with open questions.", name="paths"),
        Flag("FILE...", "answers", DATA, "JSON lines that the engine wrote.", Path, name="files"),
        *borrowed("questions", "run", "--target", "--targets", "--untrusted", "--columns", "--doc-id", "--filter", "--limit", "--sample", "--judge", "--labels", "--repeat", "--base-url", "--model-parameter", "--temperature", "--against", "--scale", "--rubric", "--reading", "--batch", "--prompt", "--measure", "--ledger", "--json", unset=True),
        Flag("--seed", "questions", DATA, "Random seed of --sample.", int, value="N", default=0, unset=True),
        Flag("-o --output", "questions", OUTPUT, "The file of requests to write (JSON lines).", Path, value="FILE", required=True, at_url="refused"),
        *borrowed("answers", "run", "--ledger", "--json"),
    ],
)  # fmt: skip
