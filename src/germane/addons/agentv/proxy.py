"""A judge behind an eval runner's loopback proxy, which sends one text to the runner's model."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx2

from germane.errors import AnswerError
from germane.judges import LLMJudge
from germane.judges.client.function import prompt_of
from germane.judges.client.transport import Secrets
from germane.judges.judge import GaveUp
from germane.types import FrozenDict

_IN_FLIGHT, _SECONDS = 4, 120.0


def proxy_judge(url: str, token: str = "") -> LLMJudge:
    """Return a judge that asks `POST /invoke {question, systemPrompt}` -> `{rawText}` at a runner's proxy, with a bearer token.

    Which model stands behind it is the runner's business, so its answers are not kept for later runs.
    """
    judge = LLMJudge(_Runner(url, token), concurrency=_IN_FLIGHT)
    judge.name, judge.kept, judge.stored = "proxy", True, False
    judge.identity = FrozenDict({"judge": "proxy", "url": url})
    return judge


class _Runner:
    """The runner's model as a chat model."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url.rstrip('/')}/invoke"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._secrets = Secrets(self._headers, url=url)

    async def ainvoke(self, messages: Sequence[tuple[str, str]]) -> str:
        """Return the raw text of the answer, or the last message's content.

        GaveUp where the runner refuses: it limits the calls (429 past its limit), so nothing is asked twice for that.
        """
        system = "\n\n".join(text for role, text in messages if role == "system")
        body = {
            "question": prompt_of([turn for turn in messages if turn[0] != "system"]),
            "systemPrompt": system,
        }
        async with httpx2.AsyncClient(headers=self._headers, timeout=_SECONDS, trust_env=False) as client:
            response = await client.post(self._url, json=body)
        if response.status_code != httpx2.codes.OK:
            why = f"the runner's judge proxy: status {response.status_code}: {self._secrets.mask_text(response.text)[:300]}"
            raise GaveUp(why)
        result = json.loads(self._secrets.mask(response.content))
        fields = result if isinstance(result, dict) else {}
        messages_back = fields.get("outputMessages")
        if isinstance(fields.get("rawText"), str):
            return str(fields["rawText"])
        if isinstance(messages_back, list) and messages_back and isinstance(messages_back[-1], dict):
            return str(messages_back[-1].get("content") or "")
        raise AnswerError("the proxy returned no text")
