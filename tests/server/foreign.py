"""The model server behind Anthropic's and Gemini's protocols: the same scripts, another shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from germane.types import Json
from tests.server.acts import Act
from tests.server.asked import Asked
from tests.server.models import ModelServer
from tests.server.wire import Connection


class AnthropicServer(ModelServer):
    """The model server behind Anthropic's `/v1/messages`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.heard: list[dict[str, Json]] = []
        self.sent: list[Mapping[str, str]] = []

    @property
    def base(self) -> str:
        return self.url.removesuffix("/v1")

    def _on_request(self, connection: Connection, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        request = json.loads(raw)
        self.heard.append(request)
        self.sent.append(headers)
        path = path.replace("/v1/messages", "/v1/chat/completions")
        super()._on_request(connection, path, headers, json.dumps(messages_as_chat(request)).encode())

    def _completion(self, asked: Asked, act: Act) -> bytes:
        return json.dumps(as_message(json.loads(super()._completion(asked, act)))).encode()


def as_message(chat: Mapping[str, Any]) -> dict[str, Json]:
    """A chat completion as Anthropic's message."""
    choice = chat["choices"][0]
    message, finish = choice["message"], choice["finish_reason"]
    content: list[Json] = [{"type": "text", "text": message["content"] or ""}]
    if calls := message.get("tool_calls"):
        made = calls[0]["function"]
        content = [
            {"type": "tool_use", "id": "t", "name": made["name"], "input": json.loads(made["arguments"])}
        ]
    used = chat.get("usage", {})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": chat["model"],
        "content": content,
        "stop_reason": {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish),
        "stop_sequence": None,
        "usage": {
            "input_tokens": used.get("prompt_tokens", 0) - 7,
            "cache_read_input_tokens": 7,
            "output_tokens": used.get("completion_tokens", 0),
        },
    }


def messages_as_chat(request: Mapping[str, Any]) -> dict[str, Json]:
    """Anthropic's request as the server's own kind."""
    system = request.get("system", "")
    messages = [
        {
            "role": "system",
            "content": system if isinstance(system, str) else "".join(part["text"] for part in system),
        }
    ]
    for message in request["messages"]:
        text = "".join(part["text"] for part in message["content"])
        messages.append({"role": message["role"], "content": text})
    chat = {"model": request["model"], "messages": messages, "max_tokens": request["max_tokens"]}
    if "output_config" in request:
        chat |= _asked_by(request["output_config"]["format"]["schema"])
    if "tools" in request:
        tool = request["tools"][0]
        function = {"name": tool["name"], "parameters": tool["input_schema"]}
        chat["tools"] = [{"type": "function", "function": function}]
    return chat


def contents_as_chat(model: str, request: Mapping[str, Any]) -> dict[str, Json]:
    """Gemini's request as the server's own kind."""

    def text(content: Mapping[str, Any]) -> str:
        return "".join(part["text"] for part in content["parts"])

    messages = [{"role": "system", "content": text(request["systemInstruction"])}]
    messages += [{"role": "user", "content": text(one)} for one in request["contents"]]
    config = request["generationConfig"]
    return {"model": model, "messages": messages} | _asked_by(config["responseJsonSchema"])


def as_content(chat: Mapping[str, Any]) -> dict[str, Json]:
    """A chat completion as Gemini's response."""
    choice, used = chat["choices"][0], chat["usage"]
    finish = {"stop": "STOP", "length": "MAX_TOKENS"}[choice["finish_reason"]]
    content = {"role": "model", "parts": [{"text": choice["message"]["content"]}]}
    return {
        "candidates": [{"index": 0, "finishReason": finish, "content": content}],
        "modelVersion": chat["model"],
        "responseId": "r",
        "usageMetadata": {
            "promptTokenCount": used["prompt_tokens"],
            "candidatesTokenCount": used["completion_tokens"],
            "totalTokenCount": used["prompt_tokens"] + used["completion_tokens"],
        },
    }


def _asked_by(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": _kind(schema), "schema": schema}}
    }


def _kind(schema: Mapping[str, Json]) -> str:
    """These protocols name no schema."""
    parts = schema["properties"]
    if "grade" in parts:
        return "relevance"
    return "support" if parts["claims"]["items"].get("type") == "object" else "claims"
