"""One case through the ordinary evaluation: rows in the shapes of other tools, scores with their explanation out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from germane.errors import InputError, describe
from germane.evaluation.choice import NAME_A_JUDGE, pick_judge
from germane.evaluation.evaluate import aevaluate
from germane.evaluation.evaluation import run_coroutine
from germane.evaluation.options import environment
from germane.judges.client.providers import PROVIDERS
from germane.judges.llm import LLMJudge
from germane.measures.explaining import Explanation
from germane.samples.frames import fields_of, records
from germane.samples.reading import samples_from
from germane.types import Json, Judgement, Sample, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One score and what it rests on: `source` is "gold", "human" or the judge; `judgements` are those of the whole call."""

    sample: Sample
    score: Score
    explanation: Explanation
    source: str
    judgements: tuple[Judgement, ...]

    @property
    def problem(self) -> str:
        """The status, the reason and the bounds of a score without a value, in words; "" where there is a value."""
        if self.score.value is not None:
            return ""
        bounds = self.score.bounds
        could = f" (it is between {bounds[0]:g} and {bounds[1]:g})" if bounds else ""
        return f"{self.score.status}: {self.score.why}{could}"

    @property
    def reason(self) -> str:
        """The explanation on one line: what was found, then every miss."""
        return "; ".join([self.explanation.reasoning, *self.explanation.misses])

    @property
    def verdicts(self) -> list[bool]:
        """The verdicts that the score counts: on each claim of a recall, each statement of a relevancy, else each ranked context.

        In their order, leaving out what was not answered.
        """
        if self.score.type == "context_recall":
            return [bool(positions) for positions in self.support]
        if self.score.type == "context_relevancy":
            answers = self._answers("statements")
            return [value["relevant"] for answer in answers for value in answer["statements"]]
        checks = (check["relevant"] for check in self.explanation.relevance_checks)
        return [relevant for relevant in checks if relevant is not None]

    @property
    def support(self) -> list[tuple[int, ...]]:
        """For each claim that was judged, the contexts that support it, by their number from 1."""
        items = [item for answer in self._answers("support") for item in answer["claims"]]
        return [tuple(item["contexts"]) for item in sorted(items, key=lambda item: int(item["claim"]))]

    def _answers(self, kind: str) -> Iterator[Json]:
        return (row.answer for row in self.judgements if row.kind == kind and row.error is None)


def measure_case(
    row: Mapping[str, Json], measures: str | Sequence[str], **settings: Any
) -> tuple[Measured, ...]:
    """The measures of one case, waited for: see `ameasure_case`."""
    return run_coroutine(ameasure_case(row, measures, **settings))


async def ameasure_case(
    row: Mapping[str, Json],
    measures: str | Sequence[str],
    *,
    judge: Any,
    against: str = "auto",
    ledger: str | Path | None = None,
    called: str = "judge",
) -> tuple[Measured, ...]:
    """The measures of one case, from a row with the usual names of its fields (`query`, `contexts`, `reference`).

    An error about the judge names the argument that it is `called` by.
    """
    (sample,) = samples_from(records([row]), file=False)
    with naming(called):
        report = await aevaluate([sample], measures, judge=judge_of(judge), against=against, ledger=ledger)
    judgements = tuple(report.judgements())
    judges = sorted({judgement.judge for judgement in judgements}) or [
        str(report.manifest["judge"]["source"])
    ]
    return tuple(
        Measured(
            sample=sample,
            score=score,
            explanation=report.explain(sample.id, score.measure, system=sample.system, trial=sample.trial),
            source=", ".join(judges) if (of := report[score.measure].basis.source) == "judge" else of,
            judgements=judgements,
        )
        for score in report.scores()
    )


def row_of(inputs: Any, output: Any, expected: Any) -> dict[str, Json]:
    """A row of what other tools keep apart: what went in, what came out, what was expected.

    A mapping, or an object with attributes, gives its fields under any name that a data file may have; a text is the query,
    the response and the reference; a list that came out is the contexts, one that was expected the gold ids.
    """
    return {
        **_fields(inputs, text="query"),
        **_fields(output, text="response", sequence="contexts"),
        **_fields(expected, text="reference", sequence="qrels"),
    }


def _fields(value: Any, *, text: str, sequence: str | None = None) -> dict[str, Json]:
    if isinstance(value, str):
        return {text: value}
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    if isinstance(value, AbstractSet) and sequence == "contexts":
        raise InputError(f"the {text} is a set, which has no order", fix="give a list, best first")
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, bytes) and sequence is not None:
        return {sequence: sorted(value, key=str) if isinstance(value, AbstractSet) else list(value)}
    if value is None:
        return {}
    fields = value if isinstance(value, Mapping) else fields_of(value) or getattr(value, "__dict__", None)
    if not fields and not isinstance(value, Mapping):
        fix = f"give a text{', a list of ids' * (sequence == 'qrels')}{', a list of contexts' * (sequence == 'contexts')} "
        raise InputError(
            f"the {text} is {describe(value)}", fix=f"{fix}or a mapping with the fields of a sample"
        )
    return dict(fields or {})


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Within it, the error of a missing judge says how one is given to this integration."""
    try:
        yield
    except InputError as error:
        if error.fix == NAME_A_JUDGE:
            fix = f'name one: {argument}="openai:gpt-4o-mini" | "labels" | "lexical", or set GERMANE_JUDGE'
            raise InputError(error.problem, fix=fix) from None
        raise


def judge_of(model: Any) -> Any:
    """The judge of a call: as given, a bare model name (`gpt-4o-mini`) as OpenAI's, None = GERMANE_JUDGE or the config.

    A model object of Ragas' or DeepEval's is asked as it is there: at its own endpoint with its own key, or by its own method.
    """
    if model is None:
        return pick_judge(_with_provider(environment("judge") or "") or None)
    return _with_provider(model) if isinstance(model, str) else _of_another_tool(model)


def _of_another_tool(model: Any) -> Any:
    """A judge of a DeepEvalBaseLLM or one of Ragas' LLM objects; anything else as it is."""
    if hasattr(model, "langchain_llm"):  # Ragas' wrapper of a chat model
        return LLMJudge(model.langchain_llm)
    if hasattr(model, "a_generate") and hasattr(model, "get_model_name"):  # DeepEval

        async def generate(prompt: str) -> str:
            result = await model.a_generate(prompt)
            return str(result[0] if isinstance(result, tuple) else result)  # its own models say the cost, too

        return LLMJudge(generate, name=str(model.get_model_name()))
    if hasattr(model, "agenerate_text"):  # any other of Ragas' first kind

        async def generate_text(prompt: str) -> str:
            from langchain_core.prompt_values import StringPromptValue

            value = await model.agenerate_text(StringPromptValue(text=prompt))
            return str(value.generations[0][0].text)

        return LLMJudge(generate_text)
    if hasattr(model, "agenerate") and hasattr(model, "provider"):  # Ragas' llm_factory
        return _at_its_endpoint(model)
    return model


def _at_its_endpoint(model: Any) -> LLMJudge:
    """The model that Ragas' `llm_factory` made, asked at the endpoint of its client: it gives no texts, only objects."""
    client = getattr(model.client, "client", model.client)  # instructor wraps the provider's own
    url, key = getattr(client, "base_url", None), getattr(client, "api_key", None)
    if model.provider not in PROVIDERS or url is None or not isinstance(key, str):
        problem = f"the client of {model.model} does not say where it is asked"
        raise InputError(problem, fix='name the judge: "openai:gpt-4o-mini", or PROVIDER:MODEL@URL')
    temperature = model.model_args.get("temperature", 0.1)
    spec = f"{model.provider}:{model.model}"
    return LLMJudge(spec, base_url=str(url), api_key=key, temperature=temperature)


def _with_provider(names: str) -> str:
    """The names of judges, those that can only be models of OpenAI's with their provider."""
    return " ".join(f"openai:{name}" if _BARE.fullmatch(name) else name for name in names.split())


_BARE = re.compile(r"[\w.]+-[\w.-]+|gpt[\w.]+|o\d")


def required(value: Json, name: str, tool: str, error: type[InputError] = InputError) -> Json:
    """A field that a call cannot do without; an error where it was not given."""
    if value is None:
        raise error(f"{tool} needs {name}", fix=f"give {name}=...")
    return value
