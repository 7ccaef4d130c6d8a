"""Requests to providers whose protocol differs from OpenAI's, sent through pydantic-ai.

A request body is converted to pydantic-ai's messages, and the response is converted to a chat completion; the
rest of the client is the same. The provider's own library is an optional dependency (`anthropic`, ...). Its
retries are switched off, so that every request is counted. Only boto3's retries cannot be switched off.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from germane.clean import mask_urls
from germane.errors import JudgeError
from germane.judges.client.chat import LIMIT_NAMES, chat_completion
from germane.judges.client.providers import Service
from germane.judges.client.retry import TransportError
from germane.judges.client.transport import Response, Secrets
from germane.types import Json

__all__ = ["PydanticAITransport"]

_OURS = {"model", "messages", "response_format", "tools", "tool_choice", "temperature", "reasoning_effort"}
_NO_KEY = "none"  # sent as the key, where a provider's library would otherwise read one from the environment


class PydanticAITransport:
    """A transport to a provider with a protocol of its own; `send` uses the format of chat completions."""

    def __init__(self, service: Service, key: str, headers: Mapping[str, str]) -> None:
        self.url = mask_urls(service.url)
        self.secrets = Secrets(headers, key, service.url)
        self.provider, self._extra_headers = service.provider, dict(headers)
        options = {"api_key": key} if key else {}
        if service.custom:
            options["base_url"] = service.custom
            if service.provider != "bedrock":  # boto3 finds AWS credentials by itself
                options.setdefault("api_key", _NO_KEY)
        provider: Any = infer_provider_class(service.provider)
        try:
            self.model: Model = infer_model(service.name, lambda _: provider(**options))
        except (UserError, ValueError) as error:
            raise JudgeError(f"{service.name} cannot be used: {error}") from None
        self._entered = False  # the connections are open, in one event loop

    @property
    def takes_temperature(self) -> bool:
        """True if pydantic-ai sends a temperature to this model."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings, _ = self.model.prepare_request({"temperature": 0.0}, ModelRequestParameters())
        return "temperature" in (settings or {})

    async def send(self, body: bytes) -> Response:
        """Send one request through pydantic-ai; return the response as an OpenAI-compatible server would."""
        if not self._entered:
            self._entered = True
            await self.model.__aenter__()
        request, messages = json.loads(body), list[ModelMessage]()
        parts = {"system": SystemPromptPart, "user": UserPromptPart}
        for message in request["messages"]:
            content = message["content"]
            if message["role"] == "assistant":
                messages.append(ModelResponse(parts=[TextPart(content)]))
            else:
                messages.append(ModelRequest(parts=[parts[message["role"]](content)]))
        try:
            response = await model_request(
                self.model,
                messages,
                model_settings=self._settings(request),
                model_request_parameters=_parameters(request),
            )
        except ModelHTTPError as error:
            return error.status_code, error.headers or {}, _error_body(error.body, str(error))
        except UserError as error:  # the model does not accept the request; a server would respond with 400
            return 400, {}, _error_body(None, str(error))
        except (ModelAPIError, UnexpectedModelBehavior) as error:
            raise TransportError(f"{type(error).__name__}: {error}") from None
        except Exception as error:  # noqa: BLE001 - a provider's library may raise any exception
            if "credential" in type(error).__name__.lower():
                return 401, {}, _error_body(None, str(error))
            raise TransportError(f"{type(error).__name__}: {error}") from None
        return 200, {}, json.dumps(_completion(response), ensure_ascii=False).encode("utf-8", "replace")

    def _settings(self, request: Mapping[str, Json]) -> ModelSettings:
        settings: dict[str, Json] = {} if self.provider == "bedrock" else {"max_retries": 0}
        settings |= {name: request[name] for name in ("max_tokens", "temperature") if name in request}
        if "max_completion_tokens" in request:
            settings["max_tokens"] = request["max_completion_tokens"]
        if effort := request.get("reasoning_effort"):
            settings["thinking"] = effort != "none" and effort
        if self._extra_headers:
            settings["extra_headers"] = self._extra_headers
        more = {name: value for name, value in request.items() if name not in {*_OURS, *LIMIT_NAMES}}
        prefix = f"{self.provider}_"
        own = {name for name in more if name in ModelSettings.__annotations__ or name.startswith(prefix)}
        settings |= {name: more[name] for name in own}
        if rest := {name: value for name, value in more.items() if name not in own}:
            settings["extra_body"] = rest
        return settings  # type: ignore[return-value]

    async def close(self) -> None:
        """Close the connections; no further request can be sent."""
        if self._entered:
            await self.model.__aexit__(None, None, None)


def _completion(response: ModelResponse) -> dict[str, Json]:
    texts = (part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    message: dict[str, Json] = {"content": "".join(texts)}
    if calls:
        message["tool_calls"] = [
            {"function": {"name": call.tool_name, "arguments": call.args_as_json_str()}} for call in calls
        ]
    finish = "stop" if response.finish_reason == "tool_call" else response.finish_reason
    return chat_completion(message, finish, response.model_name, vars(response.usage))


def _parameters(request: Mapping[str, Json]) -> ModelRequestParameters:
    if "response_format" in request:
        schema = request["response_format"]["json_schema"]
        output = OutputObjectDefinition(name=schema["name"], json_schema=schema["schema"], strict=True)
        return ModelRequestParameters(output_mode="native", output_object=output)
    if "tools" in request:
        function = request["tools"][0]["function"]
        schema = function.pop("parameters")
        tool = ToolDefinition(**function, parameters_json_schema=schema, kind="output")
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    return ModelRequestParameters()


def _error_body(body: object, text: str) -> bytes:
    result = body if isinstance(body, dict) else {"error": {"message": text}}
    return json.dumps(result, ensure_ascii=False, default=str).encode("utf-8", "replace")
