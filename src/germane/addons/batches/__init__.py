"""Send questions in OpenAI's batches at half the price, or write them to a file for another engine.

The answers are read later, and stored in the ledger.
"""

from pathlib import Path

from germane.addons import Addon, Source
from germane.flags import DATA, MONEY, OUTPUT, Flag, borrowed

_HERE = "germane.addons.batches"

ADDON = Addon(
    about="Questions answered later: by a batch API at half the price, or by another engine through files.",
    sources={"batches": Source(f"{_HERE}.rounds:Later", options=["later"])},
    verbs={
        "questions": (f"{_HERE}.verbs:questions", "Export the requests that a run would send, for another engine."),
        "answers": (f"{_HERE}.verbs:answers", "Read an engine's answers to the requests of `germane questions` into the ledger."),
    },
    flags=[
        Flag("--later", "run", MONEY, "Use the provider's batch API, at half price: send the batches and exit; --resume REPORT --later fetches the answers.", bool, holds="command"),
        Flag("PATH...", "questions", DATA, "Read eval files, samples, folders of them, or a report with unanswered questions.", name="paths"),
        Flag("FILE...", "answers", DATA, "Read the engine's answers (JSON Lines).", Path, name="files"),
        *borrowed("questions", "--target", "--targets", "--untrusted", "--columns", "--doc-id", "--filter", "--limit", "--sample", "--judge", "--labels", "--repeat", "--base-url", "--model-parameter", "--temperature", "--against", "--scale", "--rubric", "--reading", "--batch", "--prompt", "--measure", "--ledger", "--json", unset=True),
        Flag("--seed", "questions", DATA, "Set the --sample seed.", int, value="N", default=0, unset=True),
        Flag("-o --output", "questions", OUTPUT, "Write the requests to this file (JSON Lines).", Path, value="FILE", required=True, at_url="refused"),
        *borrowed("answers", "--ledger", "--json"),
    ],
)  # fmt: skip
