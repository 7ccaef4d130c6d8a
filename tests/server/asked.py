"""What the scripted model server is asked: one request, taken apart as far as somebody looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from germane.types import Json

_SECTION = re.compile(r"<([a-z]\w*)((?:-\w+)?)>(.*?)</\1\2>", re.DOTALL)
_NUMBERED = re.compile(r"<(\d+)((?:-\w+)?)>(.*?)</\1\2>", re.DOTALL)
_CODE = re.compile(rb"(?<=[a-z0-9])-[a-z2-7]{4}>")
_SPELT = re.compile(r'\{"title":')


class Asked:
    """One request, taken apart as far as somebody looks."""

    def __init__(self, number: int, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.number, self.path, self.headers, self.raw = number, path, headers, raw

    def __repr__(self) -> str:
        """What a failed assertion shows: the kinds of question, the model, how it was asked, the first words."""
        try:
            shown = f"{', '.join(self.kinds)}; model={self.json['model']!r}, mode={self.mode!r}"
            shown += f", messages={len(self.json['messages'])}, user={_short(self.user)}"
        except Exception:  # noqa: BLE001 - whatever came, it is shown
            shown = f"path={self.path!r}, body={_short(self.raw.decode('utf-8', 'replace'))}"
        return f"<Asked {self.number}: {shown}>"

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
    def mode(self) -> str:
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
        if self.mode == "schema":
            wanted = self.json["response_format"].get("json_schema", {})
            return wanted.get("name", ""), wanted.get("schema", {})
        if self.mode == "tool":
            function = self.json["tools"][0]["function"]
            return function["name"], function["parameters"]
        schema = next(self._spelt(), None)
        if schema is None:
            return "completion", {"type": "object", "properties": {"text": {"type": "string"}}}
        return schema.pop("title", ""), schema

    def _spelt(self) -> Iterator[dict[str, Json]]:
        """The schemas that stand in the messages, wherever a model without a system message gets them."""
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
        return self.named[0].removesuffix("_list").split("-")

    @property
    def content(self) -> bytes:
        """The body without the code that tags end in, which is another in every process."""
        return _CODE.sub(b">", self.raw)

    @cached_property
    def sections(self) -> dict[str, str]:
        """The tagged sections; what is numbered inside of `contexts` also as `context 1`, `context 2`."""
        found = {}
        for name, _, text in _SECTION.findall(self.user):
            found[name] = text
            found |= {f"{name.removesuffix('s')} {place}": item for place, _, item in _NUMBERED.findall(text)}
        return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
