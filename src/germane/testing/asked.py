"""What the scripted model server is asked: one request, taken apart as far as somebody looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from germane.types import Json

__all__ = ["Asked"]

_SECTION = re.compile(r"<([a-z]\w*)>(.*?)</\1>", re.DOTALL)
_NUMBERED = re.compile(r"<(\d+)>(.*?)</\1>", re.DOTALL)
_SPELT = re.compile(r'\{"title":')
_LISTS, _WHOLE = ("statements", "entities", "claims"), {"support", "citations", "nuggets", "sufficiency"}
"""What a Reading may ask for besides its first question; and what is always asked alone."""


class Asked:
    """One request, taken apart as far as somebody looks."""

    def __init__(self, number: int, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.number, self.path, self.headers, self.raw = number, path, headers, raw

    def __repr__(self) -> str:
        """What a failed assertion shows: the kinds of question, the model, how it was asked, the first words."""
        try:
            said = f"{', '.join(self.kinds)}; model={self.json['model']!r}, rung={self.rung!r}"
            said += f", messages={len(self.json['messages'])}, user={_short(self.user)}"
        except Exception:  # noqa: BLE001 - whatever came, it is shown
            said = f"path={self.path!r}, body={_short(self.raw.decode('utf-8', 'replace'))}"
        return f"<Asked {self.number}: {said}>"

    @cached_property
    def json(self) -> dict[str, Json]:
        """The request's body."""
        found = json.loads(self.raw)
        return found if isinstance(found, dict) else {}

    @property
    def malformed(self) -> str:
        """What keeps the body from being a chat completion's request; "" where nothing does."""
        try:
            messages = self.json.get("messages")
        except ValueError as error:
            return f"the body is not JSON: {error}"
        whole = isinstance(messages, list) and all(isinstance(m, dict) and "role" in m for m in messages)
        return "" if whole else "messages must be a list of objects with a role"

    @cached_property
    def rung(self) -> str:
        """How structured output is asked for: schema, tool or prompt."""
        if "response_format" in self.json:
            return "schema"
        return "tool" if "tools" in self.json else "prompt"

    @cached_property
    def system(self) -> str:
        """The system message."""
        return "".join(m["content"] for m in self.json.get("messages", ()) if m["role"] == "system")

    @cached_property
    def user(self) -> str:
        """The first message of the user."""
        return next((str(m["content"]) for m in self.json.get("messages", ()) if m["role"] == "user"), "")

    @cached_property
    def named(self) -> tuple[str, dict[str, Json]]:
        """The name and the schema of the answer."""
        if self.rung == "schema":
            wanted = self.json["response_format"].get("json_schema", {})
            return wanted.get("name", ""), wanted.get("schema", {})
        if self.rung == "tool":
            function = self.json["tools"][0]["function"]
            return function["name"], function["parameters"]
        schema = next(self._spelt(), {})
        return schema.pop("title", ""), schema

    def _spelt(self) -> Iterator[dict[str, Json]]:
        """The schemas that stand in the messages, wherever a model without a system message is told them."""
        decoder = json.JSONDecoder()
        for message in self.json.get("messages", ()):
            text = str(message.get("content"))
            for found in _SPELT.finditer(text):
                try:
                    schema, _ = decoder.raw_decode(text, found.start())
                except ValueError:
                    continue
                if "properties" in schema:
                    yield schema

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of question that are asked, in order."""
        name, schema = self.named
        name = name.removesuffix("_list")
        if name != self.named[0]:
            schema = schema["properties"]["items"]["items"]
        parts = schema.get("properties", {})
        if name in parts and parts[name].get("type") == "object":
            return list(parts)
        return [name, *(kind for kind in _LISTS if kind in parts and kind != name and name not in _WHOLE)]

    @cached_property
    def sections(self) -> dict[str, str]:
        """The tagged sections; what is numbered inside of `contexts` also as `context 1`, `context 2`."""
        found = {}
        for name, text in _SECTION.findall(self.user):
            found[name] = text
            found |= {f"{name.removesuffix('s')} {place}": item for place, item in _NUMBERED.findall(text)}
        return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
