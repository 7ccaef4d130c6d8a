"""What requests weigh, what they share, and that texts of any script arrive as they are."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest

from germane.judges.llm import LLMJudge
from germane.questions.fusing import fused_requests, render_request
from germane.questions.kinds import (
    CitationSupport,
    Claims,
    Entities,
    NuggetSupport,
    StatementRelevance,
    Sufficiency,
    Support,
)
from germane.questions.prompts import FOLDER, load
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance

WORDS = (
    "water",
    "carbon",
    "forest",
    "policy",
    "tax",
    "energy",
    "molecule",
    "city",
    "the",
    "of",
    "and",
    "in",
    "to",
    "is",
)


GOAL = {1: (12.0, 9500), 10: (3.0, 5000)}
AIM = {1: 9270, 10: 4500}
"""Tokens a sample that leave a margin below the goal, since texts are longer here and shorter there."""


def text(tokens: int, seed: str) -> str:
    """Sentences of so many tokens, at four bytes each."""
    draw, found = random.Random(seed), ""
    while len(found) < tokens * 4:
        found += " ".join(draw.choice(WORDS) for _ in range(draw.randint(8, 18))).capitalize() + ". "
    return found[: tokens * 4].strip()


def suite(seed: int) -> tuple[list[AnyQuestion], list[AnyQuestion]]:
    """The questions of one sample in their two phases: ten contexts of 150 tokens, a reference of 60."""
    query, reference = text(12, f"q{seed}"), text(60, f"r{seed}")
    contexts = tuple(text(150, f"{seed}/{n}") for n in range(10))
    first: list[AnyQuestion] = [Claims(query, reference), Entities(query, reference)]
    for passage in contexts:
        first += [
            Relevance(query=query, passage=passage, reference=reference),
            StatementRelevance(query=query, passage=passage, reference=reference),
            Entities(query, passage),
        ]
    claims = Claims(query, reference).parse(Claims(query, reference).typical())
    return first, [Support(claims, contexts)]


def weigh(judge: LLMJudge, samples: int) -> tuple[float, float]:
    """Requests and tokens a sample, as bytes of the whole body by four."""
    phases: tuple[list[AnyQuestion], list[AnyQuestion]] = ([], [])
    for seed in range(samples):
        for phase, questions in zip(phases, suite(seed), strict=True):
            phase.extend(questions)
    sizes = [judge.forecast(group).input_tokens for phase in phases for group in judge.group(phase)]
    return len(sizes) / samples, sum(sizes) / samples


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("spec", ["openai", "openai:m@http://127.0.0.1:1/v1"])
def test_a_sample_costs_no_more_than_its_goal(spec: str, batch: int) -> None:
    """Precision, position, recall, statements, entities and graded verdicts of one sample, schemas included."""
    requests, tokens = weigh(LLMJudge(spec, batch=batch), 20)
    assert requests <= GOAL[batch][0]
    assert tokens <= AIM[batch] < GOAL[batch][1]


def bodies(questions: Sequence[AnyQuestion], **more) -> list[str]:
    judge = LLMJudge("openai", **more)
    found = fused_requests(questions, judge.prompts)
    return [judge.capabilities.body(render_request([reading], judge.prompts)).decode() for reading in found]


def shared(one: str, other: str) -> str:
    """What both begin with; no text can know the code that tags end in, so it is left out of what is compared with."""
    begun = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return re.sub(r"(?<=<\w)(\w*)-\w{4}>", r"\1>", begun)


class TestCaching:
    def test_requests_about_one_query_differ_only_from_the_passage_on(self) -> None:
        """Instructions first, then what the query shares: a provider's prompt cache keeps all of that."""
        asked: list[AnyQuestion] = []
        for passage in ("A b.", "C d."):
            asked += [
                Relevance(query="Why?", reference="Because.", history=(("user", "Hi"),), passage=passage),
                StatementRelevance(
                    query="Why?", reference="Because.", history=(("user", "Hi"),), passage=passage
                ),
            ]
        one, other = bodies([*asked, Entities("q", "A b."), Entities("q", "C d.")])
        assert shared(one, other).endswith("<passage>")
        assert "Because." in shared(one, other)

    @pytest.mark.parametrize(
        ("one", "other", "where"),
        [
            (Support(("A.",), ("x", "y")), Support(("B.", "C."), ("y", "x")), "<claims>1. "),
            (
                NuggetSupport("q", ("A.",), ("x", "y")),
                NuggetSupport("q", ("B.",), ("x", "y")),
                "<nuggets>1. ",
            ),
            (
                CitationSupport(("A. [1]",), ("x", "y")),
                CitationSupport(("B. [2]",), ("x", "y")),
                "<statements>1. ",
            ),
        ],
        ids=lambda value: getattr(value, "kind", ""),
    )
    def test_contexts_stand_before_what_is_asked_about_them(
        self, one: AnyQuestion, other: AnyQuestion, where: str
    ) -> None:
        """They are the longest that two requests share: context_recall and faithfulness of one sample."""
        assert shared(*bodies([one, other])).endswith(where)

    @pytest.mark.parametrize("more", [{"reference": "Because."}, {"history": (("user", "Hi"),)}], ids=str)
    def test_what_only_some_samples_have_stands_behind_the_instructions(self, more: dict[str, Any]) -> None:
        """A note on the reference or the history comes last: the instructions are shared all the same."""
        asked = [Relevance(query="Why?", passage="A b."), Relevance(query="How?", passage="C d.", **more)]
        assert json.dumps(load("relevance").text)[1:-1] in shared(*bodies(asked))

    def test_requests_about_two_queries_share_the_instructions(self) -> None:
        """All of the system message, to the first section."""
        asked = [Relevance(query=query, passage="A b.") for query in ("Why?", "How?")]
        assert "<query>" in shared(*bodies(asked))


TEXTS = {
    "Chinese": (
        "天空为什么是蓝色的？",  # noqa: RUF001
        "瑞利散射使短波长的光散射得更强。“蓝光”因此布满天空。",
    ),
    "Arabic": (
        "لماذا السماء زرقاء؟",
        "يُشتِّت الهواءُ الضوءَ الأزرقَ أكثر\u200f (رايلي، 1871)\u202b من غيره\u202c، وهذا \u2067ما نراه\u2069.",  # noqa: RUF001
    ),
    "German": (
        "Warum ist der Himmel blau?",
        "Die Rayleigh-Streuung wächst mit 1/λ⁴ – „blaues“ Licht streut stärker; größer heißt röter.",
    ),
}


class TestLanguages:
    @pytest.mark.parametrize(("query", "passage"), TEXTS.values(), ids=TEXTS)
    @pytest.mark.parametrize("batch", [1, 3])
    def test_a_text_arrives_as_it_is(self, query: str, passage: str, batch: int) -> None:
        """Its own characters in UTF-8, no escapes, directions and points kept."""
        judge = LLMJudge("openai", batch=batch)
        asked = [
            Relevance(query=query, passage=passage),
            Relevance(query=query, passage=f"{passage} {passage}"),
        ]
        for group in judge.group([*asked, Support((passage,), (passage, query)), Claims("q", passage)]):
            raw = judge.capabilities.body(
                render_request(fused_requests(group, judge.prompts), judge.prompts)
            ).decode()
            assert passage in raw
            assert "\\u" not in raw

    @pytest.mark.parametrize(
        "question",
        [
            Relevance(query="q", passage="p"),
            Relevance(query="q", passage="p", scale="binary"),
            StatementRelevance(query="q", passage="p"),
            Claims("q", "t"),
            Support(("c",), ("p",)),
            Sufficiency(query="q", contexts=("p",)),
        ],
        ids=lambda question: question.prompt,
    )
    def test_the_judge_answers_in_the_language_of_what_it_judges(self, question: AnyQuestion) -> None:
        """Not in that of its instructions."""
        (raw,) = bodies([question])
        assert any(f"{whose} language" in raw for whose in ("passage's", "claim's", "query's", "order and"))

    @pytest.mark.parametrize("path", sorted(FOLDER.glob("[!_]*.md")), ids=lambda path: path.stem)
    def test_every_prompt_that_asks_for_reasons_names_their_language(self, path) -> None:
        """Statements, claims and nuggets too."""
        words = path.read_text("utf-8")
        assert "Reasoning" not in words or "'s language" in words
