"""Messages of a conversation and the tools used in them, from JSON and back."""

from __future__ import annotations

from germane.samples import kinds
from germane.samples.kinds import Kind, each, listed
from germane.samples.wrong import Wrong, say
from germane.types import Json, Message, ToolCall

__all__ = ["MESSAGES", "message_json", "plain", "read_messages"]

_MESSAGE = '{"role": "user", "content": "..."}'


def _message(value: Json) -> Message:
    if isinstance(value, Message):
        return value
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", f"write {_MESSAGE}")
    role = value.get("role")
    if type(role) is not str or not role:
        raise Wrong("has no role", f"write {_MESSAGE}")
    tools = value.get("tool_calls", value.get("toolCalls")) or ()
    try:
        calls = each(_tool_call, listed(tools, '[{"tool": "search", "input": {...}, "output": {...}}]'))
    except Wrong as wrong:
        raise wrong.under("tool_calls") from None
    return Message(role=role, content=kinds.frozen(value.get("content")), tool_calls=calls)


def _tool_call(value: Json) -> ToolCall:
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", 'write {"tool": "search", "output": {...}}')
    function = value.get("function")
    if not isinstance(function, dict):
        function = {}
    tool = value.get("tool") or value.get("name") or function.get("name")
    if type(tool) is not str:
        raise Wrong("does not name its tool", 'write {"tool": "search", "output": {...}}')
    given = value.get("input", value.get("args", function.get("arguments")))
    number = value.get("id")
    return ToolCall(
        tool=tool,
        input=kinds.frozen(given),
        output=kinds.frozen(value.get("output")),
        id=None if number is None else kinds.ID.read(number),
    )


def read_messages(value: Json) -> tuple[Message, ...]:
    """The messages of a conversation; a bare string is one message of the user."""
    if type(value) is str:
        return (Message(role="user", content=value),)
    return each(_message, listed(value, f"[{_MESSAGE}]"))


MESSAGES = Kind(
    read_messages,
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/message"}}]},
)


def plain(value: Json) -> Json:
    """A frozen JSON value as ordinary dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def message_json(message: Message) -> dict[str, Json]:
    """A message as JSON, with only what it has."""
    document: dict[str, Json] = {"role": message.role, "content": plain(message.content)}
    if message.tool_calls:
        document["tool_calls"] = [
            {
                key: plain(part)
                for key, part in (("tool", c.tool), ("id", c.id), ("input", c.input), ("output", c.output))
                if part is not None
            }
            for c in message.tool_calls
        ]
    return document
