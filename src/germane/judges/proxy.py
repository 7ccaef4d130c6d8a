"""The judge that an eval runner lends its scripts: a loopback address that puts one text to its own model."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2

from germane.encoding import canonical
from germane.errors import AnswerError, JudgeError
from germane.judges.client.parsing import object_in
from germane.judges.judge import Judge, Reply, split_trivial, trivial_answer
from germane.questions.prompts import Prompts
from germane.questions.question import AnyQuestion
from germane.questions.reading import Ask, fused_requests, render_request
from germane.types import FrozenDict, Json, Usage

_ATTEMPTS, _SECONDS = 3, 120.0


class ProxyJudge(Judge):
    """Asks through a runner's proxy: `POST /invoke {question, systemPrompt}` -> `{rawText}`, with a bearer token.

    The runner limits the calls (429 past its limit): that is an error of the question, and nothing is asked twice
    for it. Which model stands behind it is the runner's business, so its answers are not kept for later runs.
    """

    name = "proxy"
    stored = False
    concurrency = 4

    def __init__(self, url: str, token: str = "") -> None:
        self.identity = FrozenDict({"judge": "proxy", "url": url})
        self._prompts = Prompts(None)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx2.AsyncClient(
            base_url=url.rstrip("/"), headers=headers, timeout=_SECONDS, trust_env=False
        )

    def prompt_hash(self, question: AnyQuestion) -> str:
        """The hash of the question's wording."""
        return self._prompts.of(question).hash

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Questions about one text share a call: a runner counts them."""
        asked, others = split_trivial(questions)
        return [*(tuple(reading.questions) for reading in fused_requests(asked, self._prompts)), *others]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """One reply per question; an unusable answer is asked again with what was wrong."""
        if (reply := trivial_answer(questions[0])) is not None:
            return [reply]
        (reading,) = fused_requests(questions, self._prompts)
        ask = render_request([reading], self._prompts)
        problem, requests = "", 0
        result: dict[int, Json] = {}
        while requests < _ATTEMPTS and not result:
            requests += 1
            try:
                text = await self._invoke(ask, problem)
                payload = object_in(text) if ask.schema else {"text": text}
                for _, _, question, part in ask.split(payload):
                    if isinstance(part, AnswerError):
                        raise part
                    result[id(question)] = question.validate(part)
            except AnswerError as unusable:
                problem, result = str(unusable), {}
            except (httpx2.HTTPError, JudgeError) as fault:
                return [Reply(error=f"the runner's judge proxy: {fault}") for _ in questions]
        error = None if result else f"unusable answer after {_ATTEMPTS} attempts: {problem}"
        usages = [Usage(requests=requests), *[Usage()] * (len(questions) - 1)]
        return [
            Reply(payload=result.get(id(question)), error=error, usage=usage)
            for question, usage in zip(questions, usages, strict=True)
        ]

    async def _invoke(self, ask: Ask, problem: str) -> str:
        """The raw text of the answer, or the last message's content."""
        again = f"\n\nYour last answer was unusable: {problem}. Answer again." if problem else ""
        schema = canonical(ask.schema).decode("utf-8", "replace")
        wanted = f"\n\nAnswer with one JSON object of this JSON Schema and nothing else:\n{schema}"
        question = f"{ask.user}{wanted if ask.schema else ''}{again}"
        body: dict[str, Json] = {"question": question, "systemPrompt": ask.system}
        response = await self._client.post("/invoke", json=body)
        if response.status_code != httpx2.codes.OK:
            raise JudgeError(f"status {response.status_code}: {response.text[:300]}")
        result = response.json()
        if isinstance(result, dict) and isinstance(result.get("rawText"), str):
            return str(result["rawText"])
        messages = result.get("outputMessages") if isinstance(result, dict) else None
        if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
            return str(messages[-1].get("content") or "")
        raise AnswerError("the proxy returned no text")

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()
