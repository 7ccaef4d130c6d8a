"""RAGElo: the reasoner, one relevance grade a passage; the measures on top cost nothing."""

import logging
import os

os.environ.setdefault("OPENAI_API_KEY", "peer")

from common import MODEL, arguments, finish, samples
from ragelo import Experiment, get_retrieval_evaluator

logging.disable(logging.WARNING)
options = arguments()
rows = samples(options)
experiment = Experiment("bench", save_on_disk=False)
for row in rows:
    experiment.add_query(row["query"], row["id"])
    for context in row["contexts"]:
        experiment.add_retrieved_doc(context["text"], row["id"], context["id"])
evaluator = get_retrieval_evaluator(
    "reasoner",
    llm_provider="openai",
    model=MODEL,
    api_base=options.url,
    n_processes=options.jobs,
    rich_print=False,
)
evaluator.evaluate_experiment(experiment)
scores = []
for query in experiment:
    for document in query.retrieved_docs.values():
        found = document.evaluations.get("reasoner")
        answer = found.answer if found else None
        scores.append((document.did, "reasoner", None if answer is None else answer.score))
finish(scores)
