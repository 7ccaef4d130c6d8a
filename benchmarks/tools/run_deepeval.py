"""DeepEval: contextual precision, recall and relevancy, through its `evaluate`."""

import os

from common import GIVE_UP, MODEL, arguments, finish, samples

os.environ["DEEPEVAL_PER_ATTEMPT_TIMEOUT_SECONDS_OVERRIDE"] = str(GIVE_UP)
os.environ["DEEPEVAL_NO_INSPECT_PROMPT"] = "1"
os.environ["DEEPEVAL_FILE_SYSTEM"] = "READ_ONLY"

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import (
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
)
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase

options = arguments()
rows = samples(options)
model = GPTModel(model=MODEL, base_url=options.url)
result = evaluate(
    [
        LLMTestCase(
            name=row["id"],
            input=row["query"],
            actual_output=row["response"],
            expected_output=row["reference"],
            retrieval_context=row["texts"],
        )
        for row in rows
    ],
    [
        metric(model=model)
        for metric in (ContextualPrecisionMetric, ContextualRecallMetric, ContextualRelevancyMetric)
    ],
    async_config=AsyncConfig(max_concurrent=options.jobs),
    display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
    # Without it the first failure ends the run with nothing.
    error_config=ErrorConfig(ignore_errors=True),
)
finish(
    (one.name, metric.name, metric.score) for one in result.test_results for metric in one.metrics_data or ()
)
