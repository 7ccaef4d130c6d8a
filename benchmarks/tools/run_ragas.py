"""Ragas: context precision, context recall, context entity recall, context relevance, through its `evaluate`."""

import warnings

warnings.simplefilter("ignore")

from common import GIVE_UP, MODEL, arguments, finish, samples  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from ragas import EvaluationDataset, RunConfig, evaluate  # noqa: E402
from ragas.cache import DiskCacheBackend  # noqa: E402
from ragas.llms import LangchainLLMWrapper  # noqa: E402
from ragas.metrics import (  # noqa: E402
    ContextEntityRecall,
    ContextRelevance,
    LLMContextPrecisionWithReference,
    LLMContextRecall,
)

options = arguments()
rows = samples(options)
cache = DiskCacheBackend(cache_dir=options.cache) if options.cache else None
llm = LangchainLLMWrapper(ChatOpenAI(model=MODEL, base_url=options.url, timeout=GIVE_UP), cache=cache)
data = EvaluationDataset.from_list(
    [
        {
            "user_input": row["query"],
            "retrieved_contexts": row["texts"],
            "reference": row["reference"],
            "response": row["response"],
        }
        for row in rows
    ]
)
metrics = [LLMContextPrecisionWithReference(), LLMContextRecall(), ContextEntityRecall(), ContextRelevance()]
config = RunConfig(max_workers=options.jobs, timeout=180, max_wait=5)
result = evaluate(data, metrics=metrics, llm=llm, run_config=config, show_progress=False)
finish(
    (row["id"], measure, value)
    for row, found in zip(rows, result.scores, strict=True)
    for measure, value in found.items()
)
