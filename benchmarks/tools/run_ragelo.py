"""RAGElo: the reasoner, one relevance grade a passage; the measures on top cost nothing."""

import logging

from common import GIVE_UP, MODEL, arguments, finish, samples
from openai import AsyncOpenAI
from ragelo import Experiment, get_retrieval_evaluator
from ragelo.llm_providers.openai_client import OpenAIProvider
from ragelo.types.configurations import OpenAIConfiguration

logging.disable(logging.WARNING)
options = arguments()
rows = samples(options)
experiment = Experiment("bench", save_on_disk=False)
for row in rows:
    experiment.add_query(row["query"], row["id"])
    for context in row["contexts"]:
        experiment.add_retrieved_doc(context["text"], row["id"], context["id"])
provider = OpenAIProvider(
    OpenAIConfiguration(api_key="peer", model=MODEL, api_base=options.url),
    AsyncOpenAI(base_url=options.url, api_key="peer", timeout=GIVE_UP),  # by itself it waits 600 s
)
evaluator = get_retrieval_evaluator(
    "reasoner", llm_provider=provider, n_processes=options.jobs, rich_print=False
)
evaluator.evaluate_experiment(experiment)
scores = []
for query in experiment:
    for document in query.retrieved_docs.values():
        found = document.evaluations.get("reasoner")
        answer = found.answer if found else None
        scores.append((document.did, "reasoner", None if answer is None else answer.score))
finish(scores)
