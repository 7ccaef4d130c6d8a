"""Texts that are more than a model takes: windows of contexts that may support claims, or an error, never a verdict on a part that is not said to be one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from germane.judges.client.retry import RetryPolicy, next_action
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.kinds import CitationSupport, Claims, NuggetSupport, Sufficiency, Support
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.types import Json
from tests.server import Act, Asked, ModelServer

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
CONTEXTS = tuple(f"Context {n} holds word{n}. {'And more of the same. ' * 40}" for n in range(1, 9))
CLAIMS = ("it is word2", "it is word3 word7", "it is nowhere")


def ask(judge: LLMJudge, questions: Sequence[AnyQuestion]) -> list[Reply]:
    async def main() -> list[Reply]:
        try:
            return [reply for group in judge.group(questions) for reply in await judge.answer(group)]
        finally:
            await judge.close()

    return asyncio.run(main())


def judge_of(server: ModelServer, **more) -> LLMJudge:
    return LLMJudge("openai:test", **{"base_url": server.url, "api_key": "k", "retry": QUICK, **more})


def refusing(characters: int, status: int = 400):
    """A server whose model takes so many characters, and says so."""

    def script(asked: Asked) -> Act | None:
        error = "This model's maximum context length is 1000 tokens. (context_length_exceeded)"
        return Act(status=status, error=error) if len(asked.user) > characters else None

    return script


def copies(count: int) -> tuple[str, ...]:
    """So many times the contexts, each another text: what is there twice is judged once."""
    return tuple(f"{text}Copy {n}." for n in range(count) for text in CONTEXTS)


def reads(tokens: int) -> Act:
    """An answer that says how much of the request was read."""
    return Act(usage={"prompt_tokens": tokens})


def cutting(characters: int):
    """A server that cuts off the rest and says nothing, but counts."""
    return lambda asked: reads(characters // 4) if len(asked.user) > characters else None


def by_words(kind: str, sections: Mapping[str, str], _schema: Mapping[str, Json]) -> Json:
    """A context supports a claim whose word it holds."""
    contexts = {int(key.split()[1]): text for key, text in sections.items() if key.startswith("context ")}
    assert kind == "support"
    found: list[Json] = []
    for number, line in enumerate(sections["claims"].splitlines(), 1):
        words = [word for word in line.split() if word.startswith("word")]
        holds = [n for n, text in contexts.items() if any(f"{word}." in text for word in words)]
        found.append({"claim": number, "reasoning": f"r{number}", "contexts": holds})
    return {"claims": found}


class TestWindows:
    @pytest.mark.parametrize("script", [refusing(3000), refusing(3000, 413), refusing(3000, 500)])
    def test_support_is_the_union_by_the_contexts_own_numbers(self, script) -> None:
        """Eight contexts of which two or three fit at once."""
        question = Support(CLAIMS, CONTEXTS)
        with ModelServer(script, answer=by_words) as server:
            (reply,) = ask(judge_of(server), [question])
        assert reply.error is None
        assert [verdict.contexts for verdict in question.parse(reply.payload)] == [(2,), (3, 7), ()]
        assert reply.provenance["windows"] == len(reply.children) == 4
        assert {child.request for _, child in reply.children} == {reply.request}
        assert reply.usage.requests == server.count == 7

    def test_a_server_that_cuts_off_in_silence_is_noticed(self) -> None:
        """By what it says it has read; then smaller windows fit."""
        question = Support(CLAIMS, copies(8))
        with ModelServer(cutting(9000), answer=by_words) as server:
            (reply,) = ask(judge_of(server), [question])
        assert reply.error is None
        assert question.parse(reply.payload)[0].contexts == tuple(range(2, 65, 8))
        assert reply.provenance["windows"] == 8
        assert sum(len(asked.user) < 9000 for asked in server.asked) == 8

    def test_a_context_that_is_exactly_full_was_too_small(self) -> None:
        """A prompt just above what Ollama's default takes: half as much again would not look suspicious otherwise."""
        question = Support(CLAIMS, copies(3))

        def script(asked: Asked) -> Act | None:
            return reads(4096) if len(asked.user) > 4 * 4096 else None

        with ModelServer(script, answer=by_words) as server:
            (reply,) = ask(judge_of(server), [question])
        assert reply.error is None
        assert reply.provenance["windows"] == 2

    def test_as_many_tokens_as_a_context_holds_may_be_chance(self) -> None:
        """The text has about as many tokens: the verdict stands, and no other falls."""
        passage = "and more of the same " * 420
        sizes: list[int] = []

        def script(asked: Asked) -> Act:
            sizes.append(len(asked.user))
            return reads(2048 + (sizes[-1] - sizes[0]) // 4)

        with ModelServer(script) as server:
            questions = [Relevance(query="q", passage=passage[:end]) for end in (None, 8700, 8600)]
            replies = ask(judge_of(server), questions)
        assert [reply.error for reply in replies] == [None] * 3
        assert server.count == 3

    @pytest.mark.parametrize("read", [0, 30])
    def test_a_count_of_what_was_not_cached_is_no_sign(self, read: int) -> None:
        """No context is that small; and 0 says nothing."""
        with ModelServer(lambda _: reads(read)) as server:
            (reply,) = ask(judge_of(server), [Relevance(query="q", passage="a word " * 2000)])
        assert reply.error is None
        assert server.count == 1

    def test_a_server_that_reads_more_after_all_cuts_nothing_off(self) -> None:
        """What one odd count said of it is forgotten."""
        acts = [reads(1000), reads(1000), reads(4500), None, None]
        with ModelServer(acts) as server:
            replies = [
                ask(judge, [Relevance(query=f"q{n}", passage="a word " * 2000)])[0]
                for judge in [judge_of(server)]
                for n in range(3)
            ]
        assert [reply.error is None for reply in replies] == [False, False, True]

    def test_what_was_too_long_once_says_nothing_of_others(self) -> None:
        """Every question is asked whole first: a passage of three times as many tokens a byte must cost no other."""
        dense = "QmFzZTY0" * 500

        def script(asked: Asked) -> Act | None:
            tokens = len(asked.user) / (1 if dense in asked.user else 4)
            error = "This model's maximum context length is 4000 tokens. (context_length_exceeded)"
            return Act(status=400, error=error) if tokens > 4000 else None

        questions = [Support((f"it is word{n}",), CONTEXTS) for n in range(2, 5)]
        with ModelServer(script, answer=by_words) as server:
            refused, *replies = ask(judge_of(server), [Support(("it is word2",), (dense,)), *questions])
        assert "too long" in str(refused.error)
        assert [question.parse(reply.payload)[0].contexts for question, reply in zip(questions, replies, strict=True)] == [(2,), (3,), (4,)]  # fmt: skip
        assert not any("windows" in reply.provenance for reply in replies)
        assert server.count == 4

    def test_a_context_of_many_tokens_splits_no_other_of_its_question(self) -> None:
        """What is left fits together, and what it states only together is seen."""
        dense = "QmFzZTY0" * 300
        contexts = (*CONTEXTS[:3], dense)

        def script(asked: Asked) -> Act | None:
            tokens = len(asked.user) / (1 if dense in asked.user else 4)
            return Act(status=400, error="prompt is too long") if tokens > 3200 else None

        with ModelServer(script, answer=by_words) as server:
            (reply,) = ask(judge_of(server), [Support(CLAIMS, contexts)])
        assert reply.error is None
        assert reply.provenance["windows"] == 2

    def test_a_verdict_that_windows_may_have_made_says_so(self) -> None:
        """Two contexts of two windows may state it together: the reason names that, where it can matter."""
        question = Support(("it is word2", "it is nowhere"), CONTEXTS)
        with ModelServer(refusing(4500), answer=by_words) as server:
            (reply,) = ask(judge_of(server), [question])
        sure, unsure = (verdict.reasoning for verdict in question.parse(reply.payload))
        assert "windows" not in sure
        assert "the contexts were judged in 2 windows" in unsure

    def test_what_was_wrong_may_be_too_long_to_be_told(self) -> None:
        """Then the question is asked again without it: its own texts fit, and are not split."""
        rambling = Act(text="Hm. " * 900)
        script = refusing(8000)

        def talk(asked: Asked) -> Act | None:
            if len(asked.raw) > 11000:
                return Act(status=400, error="prompt is too long")
            return rambling if asked.number == 0 else script(asked)

        with ModelServer(talk, answer=by_words) as server:
            (reply,) = ask(judge_of(server), [Support(CLAIMS, CONTEXTS)])
        assert reply.error is None
        assert "windows" not in reply.provenance
        assert server.count == 3

    def test_a_window_that_fails_fails_the_question(self) -> None:
        """No verdict from the others alone."""
        script = refusing(4500)
        bad = lambda asked: script(asked) or (Act(text="no") if "word8." in asked.user else None)  # noqa: E731
        with ModelServer(bad, answer=by_words) as server:
            (reply,) = ask(judge_of(server), [Support(CLAIMS, CONTEXTS)])
        assert reply.payload is None
        assert "no usable answer in 3 attempts" in str(reply.error)

    def test_halves_are_even_and_nothing_is_lost(self) -> None:
        """By length, not by count."""
        question = Support(("a",), ("a" * 100, "b" * 10, "c" * 10, "d" * 90))
        halves = question.halves()
        assert halves is not None
        assert halves[0].contexts + halves[1].contexts == question.contexts
        assert Support(("a",), ("x",)).halves() == []

    def test_one_window_is_the_question_itself(self) -> None:
        """Merging changes nothing then."""
        question = Support(("a",), ("x", "y"))
        payload = {"claims": [{"claim": 1, "reasoning": "r", "contexts": [2]}]}
        assert question.merge([(question, payload)]) == payload


class TestErrors:
    def test_a_single_passage_is_never_cut(self) -> None:
        """The error says how long it is."""
        question = Relevance(query="q", passage="a word " * 2000)
        with ModelServer(refusing(5000)) as server:
            (reply,) = ask(judge_of(server), [question])
        assert reply.payload is None
        assert "the texts are too long for the model: about 3,7" in str(reply.error)
        assert server.count == 1

    def test_a_single_context_is_named(self) -> None:
        """Which one, by its number among all."""
        contexts = (*CONTEXTS[:3], "a word " * 2000, *CONTEXTS[3:])
        with ModelServer(refusing(5000), answer=by_words) as server:
            (reply,) = ask(judge_of(server), [Support(CLAIMS, contexts)])
        assert reply.payload is None
        assert str(reply.error).startswith(
            "context 4 alone is too long for the model; shorten it (the texts are too long for the model"
        )

    def test_a_passage_that_was_cut_off_in_silence_has_no_verdict(self) -> None:
        """The error says how much was read, and what to do."""
        with ModelServer(cutting(4000)) as server:
            (reply,) = ask(judge_of(server), [Relevance(query="q", passage="a word " * 2000)])
        assert reply.payload is None
        assert "the server read 1,000 tokens of about 3,7" in str(reply.error)
        assert "OLLAMA_CONTEXT_LENGTH" in str(reply.error)

    def test_a_list_that_is_too_long_is_asked_as_two(self) -> None:
        """One passage too long costs only its own verdict, and is asked alone once."""
        questions = [
            Relevance(query="q", passage=f"{n} " + "a word " * (1000 if n == 1 else 100)) for n in range(4)
        ]
        with ModelServer(refusing(2500)) as server:
            replies = ask(judge_of(server, batch=4), questions)
        assert sum(reply.error is None for reply in replies) == 3
        assert server.count == 5

    @pytest.mark.parametrize(
        "question",
        [
            CitationSupport(("It is so. [1][8]",), CONTEXTS),
            NuggetSupport(query="q", nuggets=("word3", "word3 word7"), contexts=CONTEXTS),
            Sufficiency(query="q", contexts=CONTEXTS),
        ],
        ids=lambda question: question.kind,
    )
    def test_other_questions_about_contexts_are_judged_whole_or_not_at_all(
        self, question: AnyQuestion
    ) -> None:
        """The error says how long their texts are, and nothing else is sent."""
        with ModelServer(refusing(3000)) as server:
            (reply,) = ask(judge_of(server), [question])
        assert reply.payload is None
        assert "the texts are too long for the model: about" in str(reply.error)
        assert server.count == 1

    @pytest.mark.parametrize("text", ["\n \n" * 5000, "一" * 5000, "word " * 3000, "हिन्दी में लिखा " * 400])
    def test_texts_that_are_few_tokens_for_their_length_are_not_suspected(self, text: str) -> None:
        """White space; and scripts with many or few characters a token."""
        dense = {"\n": 50, "一": 4500, "w": 3000, "ह": 2200}[text[0]]
        with ModelServer(lambda _: reads(dense)) as server:
            (reply,) = ask(judge_of(server), [Claims("q", f"A. {text}")])
        assert "cuts off" not in str(reply.error)


SPELLINGS = [
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    (400, "the request exceeds the available context size. try increasing the context size (exceed_context_size_error)"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum (invalid_request_error)"),
    (413, "Request exceeds the maximum size (request_too_large)"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "Input is too long for requested model."),
    (400, "Please reduce the length of the messages or completion."),
    (429, "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 6500"),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    (400, "Input is longer than model context limit"),
    (500, "Internal: prompt exceeds n_ctx"),
    (500, "input length exceeds the context length"),
    (500, "the prompt is too long for the context window"),
]  # fmt: skip
OTHERS = [
    (429, "Too many tokens, please wait before trying again."),
    (429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000"),
    (400, "max_tokens is too large: 8192. This model supports at most 4096 completion tokens"),
    (400, "Invalid schema for response_format 'relevance'"),
    (400, "Unsupported value: 'temperature' does not support 0.1 with this model."),
    (404, "The model `context-length-8k` does not exist"),
    (500, "Internal server error"),
]


@pytest.mark.parametrize(("status", "said"), SPELLINGS)
def test_every_way_of_saying_too_long_is_understood(status: int, said: str) -> None:
    """Providers agree on nothing."""
    assert next_action(status, said, said, worked=False) == "too long"


@pytest.mark.parametrize(("status", "said"), OTHERS)
def test_nothing_else_is_taken_for_it(status: int, said: str) -> None:
    """Above all not a wait for tokens per minute."""
    assert next_action(status, said, said, worked=False) != "too long"
