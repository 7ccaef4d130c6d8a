from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.judges.lexical import LexicalJudge, terms
from germane.questions import Claims, Grade, Question, Relevance, Support, Supported
from germane.questions.text import sentences, stem, words

PARIS = "Paris is the capital and largest city of France."


def grade(query: str, passage: str, **more: Any) -> Grade:
    question = Relevance(query=query, passage=passage, **more)
    return question.parse(LexicalJudge().reply(question).payload)


def support(claims: list[str], *contexts: str) -> tuple[Supported, ...]:
    question = Support(tuple(claims), contexts)
    return question.parse(LexicalJudge().reply(question).payload)


def claims_of(text: str) -> list[str]:
    question = Claims("q", text)
    return list(question.parse(LexicalJudge().reply(question).payload))


class TestRelevance:
    @pytest.mark.parametrize(
        ("passage", "expected"),
        [
            ("Photosynthesis turns carbon dioxide into sugar inside chloroplasts.", 3),
            ("Photosynthesis takes in dioxide; chloroplasts are green; sugar is sweet.", 2),
            ("Sugar beets need carbon in the soil.", 1),
            ("The Eiffel tower was painted in 1968.", 0),
        ],
    )
    def test_more_covered_words_are_a_higher_grade(self, passage, expected):
        """All of the words is 3, three fifths 2, three tenths 1."""
        query = "how does photosynthesis in chloroplasts turn carbon dioxide into sugar"
        assert grade(query, passage).grade == expected

    def test_the_reasoning_names_what_is_there_and_what_is_missing(self):
        """A person can see why without the program."""
        answer = grade("capital of France before Vichy", PARIS)
        assert answer.reasoning == "of the query's words the passage covers capital, france and lacks vichy"

    def test_a_long_list_of_words_is_cut_and_counted(self):
        """A reasoning stays one sentence."""
        reasoning = grade("alpha bravo charlie delta echo foxtrot golf hotel", "nothing").reasoning
        assert reasoning.endswith("lacks alpha, bravo, charlie, delta, echo, foxtrot and 2 more")

    def test_common_words_weigh_less_than_telling_ones(self):
        """Half of the words is enough where they are the ones that tell, and not where they are not."""
        query = "best coonan price"
        assert grade(query, "The Coonan is a pistol at a low price.").grade == 2
        assert grade(query, "The best price in town.").grade == 1

    def test_a_reference_counts_as_much_as_the_query(self):
        """What shares the words of the question only is not yet an answer to it."""
        query, reference = "What is the capital of France?", "Paris"
        wrong = "The capital of France moved more than once."
        assert grade(query, PARIS, reference=reference).grade == 3
        assert grade(query, wrong).grade == 3
        assert grade(query, wrong, reference=reference).grade == 1

    def test_one_sentence_of_the_reference_is_enough(self):
        """A passage need not hold the whole answer to help."""
        reference = (
            "Green tea protects the heart. It sharpens attention through caffeine. Its catechins burn fat."
        )
        answer = grade(
            "benefits of green tea",
            "Green tea brings caffeine, which sharpens attention.",
            reference=reference,
        )
        assert answer.grade == 2
        assert "of the reference's words the passage covers sharpens, attention, caffeine" in answer.reasoning

    def test_the_response_stands_in_for_the_reference_where_it_was_asked_for(self):
        """Relevance can be judged against what the system said."""
        assert "response's words" in grade("capital of France", PARIS, response="Paris.").reasoning

    @pytest.mark.parametrize(("passage", "relevant"), [(PARIS, 1), ("Bananas are yellow.", 0)])
    def test_the_binary_scale_is_a_grade_of_two_or_more(self, passage, relevant):
        """Both scales draw the line at the same place."""
        answer = grade("capital of France", passage, scale="binary")
        assert (answer.grade, answer.scale) == (relevant, "binary")

    @pytest.mark.parametrize(
        ("query", "passage"), [("", PARIS), ("?!", PARIS), ("capital of France", "..."), ("a", " ")]
    )
    def test_nothing_to_compare_is_grade_zero(self, query, passage):
        """An empty passage holds nothing, and every passage holds nothing of an empty query."""
        assert grade(query, passage).grade == 0

    def test_a_query_of_function_words_is_taken_at_its_word(self):
        """Where no word tells anything, all of them are looked for."""
        assert grade("to be or not to be", "To be, or not to be: that is the question.").grade == 3
        assert grade("to be or not to be", "Bananas.").grade == 0

    def test_a_function_word_in_capitals_is_a_name(self):
        """WHO is an organisation."""
        assert "who" in terms("WHO guidelines")
        assert "who" not in terms("who wrote the guidelines")
        assert "the" not in terms("READ THE GUIDELINES")

    @pytest.mark.parametrize(
        ("query", "good", "bad"),
        [
            (
                "Wie hoch ist die Mehrwertsteuer in Österreich?",
                "Die österreichische Mehrwertsteuer ist so hoch: 20 %.",
                "Wien hat viele Cafés.",
            ),
            ("ما هي عاصمة مصر؟", "القاهرة هي العاصمة لجمهورية مصر العربية", "باريس مدينة كبيرة"),
            ("東京の人口", "東京都の人口は1400万人です。", "大阪は西日本の中心だ。"),
            ("故宫位置", "故宫位于北京市中心\uff0c它在那里已有六百年。", "上海是一个港口城市。"),
            ("서울의 인구", "서울의 인구는 약 940만 명이다.", "부산은 항구 도시이다."),
            ("हिन्दी भाषा", "यह हिन्दी भाषा का इतिहास है।", "बारिश हो रही है।"),
            ("население Москвы", "Население Москвы превышает 13 миллионов.", "Зима была холодной."),
        ],
    )
    def test_it_works_in_other_languages(self, query, good, bad):
        """Words are found in every script, spaced or not, and endings and accents do not matter much."""
        assert grade(query, good).grade > grade(query, bad).grade == 0

    @pytest.mark.parametrize("word", ["wie", "pour", "nella"])
    def test_only_english_function_words_count_for_nothing(self, word):
        """A word of any other language counts as one that tells something."""
        assert [weight for _, weight in terms(f"the {word}").values()] == [1.0]

    def test_a_verdict_does_not_depend_on_what_else_is_asked(self):
        """No statistic of the evaluation enters: alone, together or in another order, the answers are the same."""
        passages = [
            f"Passage {n} on solar panels and their {thing}."
            for n, thing in enumerate(["cost", "angle", "life"] * 9)
        ]
        questions = [Relevance(query="cost of solar panels", passage=passage) for passage in passages]
        shuffled = random.Random(4).sample(questions, len(questions))
        together = asyncio.run(LexicalJudge().answer(tuple(shuffled)))
        alone = [LexicalJudge().reply(question) for question in shuffled]
        assert [reply.payload for reply in together] == [reply.payload for reply in alone]

    def test_a_passage_that_is_not_known_is_an_error(self):
        """Of a context that is only an id nothing can be said; it is not irrelevant."""
        question = Relevance(query="q", passage="")
        assert LexicalJudge().reply(question).error == "the context has no text"

    @given(
        st.text(max_size=200), st.text(min_size=1, max_size=400), st.one_of(st.none(), st.text(max_size=100))
    )
    def test_any_text_gets_a_readable_verdict(self, query, passage, reference):
        """Whatever the characters, the answer is on the scale."""
        assert grade(query, passage, reference=reference).grade in range(4)

    @given(
        st.lists(st.sampled_from(["solar", "panel", "cost", "angle", "roof", "battery"]), min_size=1),
        st.text(min_size=1, max_size=80),
    )
    def test_more_text_never_lowers_the_grade(self, query, passage):
        """Covered words stay covered."""
        asked = " ".join(query)
        assert grade(asked, f"{passage} {query[0]}").grade >= grade(asked, passage).grade


class TestClaims:
    @pytest.mark.parametrize(
        ("text", "claims"),
        [
            ("", []),
            ("One thing.", ["One thing."]),
            ("Dr. Smith paid 3.5 million in Jan. 2020. He left the U.S. in 1999.", ["Dr. Smith paid 3.5 million in Jan. 2020.", "He left the U.S. in 1999."]),
            ("J. R. Tolkien wrote it, e.g. in Oxford. It sold well!", ["J. R. Tolkien wrote it, e.g. in Oxford.", "It sold well!"]),
            ("It costs $1,000.50 today.", ["It costs $1,000.50 today."]),
            ("- green tea\n- black tea\n\n1. Boil water.\n2. Wait.", ["green tea", "black tea", "Boil water.", "Wait."]),
            ("Who knows? Nobody does.", ["Nobody does."]),
            ('He said "Stop." She stopped.', ['He said "Stop."', "She stopped."]),
            ("Logging clears land; farming does too.", ["Logging clears land", "farming does too."]),
            ("首都は東京です。人口は多い。", ["首都は東京です。", "人口は多い。"]),
            ("--- *** ...", []),
        ],
    )  # fmt: skip
    def test_a_text_is_cut_into_its_sentences(self, text, claims):
        """Abbreviations, initials and numbers end no sentence; list items do; questions claim nothing."""
        assert claims_of(text) == claims

    @given(st.text(max_size=300))
    def test_no_word_is_lost(self, text):
        """Whatever the text, its sentences hold its words, but for the numbering of lists."""
        kept = [word for sentence in sentences(text) for word in words(sentence)]
        assert [word for word in words(text) if not word.isdigit()] == [
            word for word in kept if not word.isdigit()
        ]


class TestSupport:
    def test_every_context_that_covers_a_claim_is_named(self):
        """Alone is enough, and all that are enough are listed."""
        (found,) = support(
            ["Paris is the capital of France."], "Bananas.", PARIS, "France has Paris as its capital."
        )
        assert found.contexts == (2, 3)

    def test_two_contexts_can_carry_a_claim_together(self):
        """Where no single one is enough, the first pair that is."""
        (found,) = support(
            ["Logging and farming destroy rainforests."],
            "Logging destroys much.",
            "Bananas.",
            "Rainforests and farming.",
        )
        assert (found.contexts, found.reasoning) == ((1, 3), "two contexts together cover the claim's words")

    def test_an_unsupported_claim_names_what_is_missing(self):
        """The closest context says what to look for."""
        first, second = support(
            ["Urbanisation destroys rainforests.", PARIS], "Logging destroys rainforests.", "Bananas."
        )
        assert first.contexts == second.contexts == ()
        assert first.reasoning.endswith("the closest lacks urbanisation")

    def test_another_number_is_another_claim(self):
        """A claim of a year or an amount is not carried by the other words; the spelling of thousands is free."""
        claim = "The forest shrank by 10,000 hectares in 2019."
        wrong = support([claim], "The forest shrank by 10000 hectares in 2018.")
        right = support([claim], "In 2019 the forest shrank by 10000 hectares.")
        assert (wrong[0].contexts, right[0].contexts) == ((), (1,))
        assert "lacks 2019" in wrong[0].reasoning

    def test_no_contexts_support_nothing(self):
        """And no claims need no support."""
        assert support([PARIS])[0].contexts == ()
        assert support([], PARIS) == ()

    @given(st.lists(st.text(max_size=60), max_size=4), st.lists(st.text(max_size=60), max_size=4))
    def test_any_text_gets_one_verdict_a_claim(self, claims, contexts):
        """Whatever the characters, claims and verdicts are as many and the numbers exist."""
        assert len(support(claims, *contexts)) == len(claims)


class _Mood(Question[str]):
    kind: ClassVar[str] = "mood"
    about = "a text"

    def inputs(self) -> dict[str, Any]:
        return {}

    def schema(self) -> dict[str, Any]:
        return {}

    def parse(self, payload: Any) -> str:
        return str(payload)

    def typical(self) -> Any:
        return ""


def test_a_kind_without_a_rule_is_an_error():
    """A question that no rule is known for is not guessed at."""
    reply = LexicalJudge().reply(_Mood())
    assert (reply.payload, reply.error) == (None, "the judge lexical cannot answer questions of kind mood")


def test_it_says_that_it_stands_in_for_a_model():
    """Every report carries this sentence; nothing of the rule is kept in the ledger."""
    judge = LexicalJudge()
    assert "stands in for a model" in judge.stand_in
    assert "\n" not in judge.stand_in
    assert (judge.name, judge.identity, judge.stored) == (
        "lexical",
        {"judge": "lexical", "version": 3},
        True,
    )


@pytest.mark.parametrize(
    "family",
    ["run runs running", "tax taxes taxed taxing", "cause causes caused", "city cities", "large larger largest",
     "tough tougher", "Versicherung Versicherungen", "café cafe", "naïve naive", "fall falls falling"],
)  # fmt: skip
def test_forms_of_a_word_are_one_word(family):
    """Plurals, tenses, comparisons and accents are not another word."""
    assert len({stem(word) for word in words(family)}) == 1


@pytest.mark.parametrize(
    "pair",
    [
        "protein protection",
        "contract control",
        "election electricity",
        "2018 2019",
        "water wall",
        "photograph photosynthesis",
    ],
)
def test_different_words_stay_different(pair):
    """The cut is long enough to keep ordinary words apart."""
    one, other = map(stem, words(pair))
    assert one != other


def test_the_page_on_judges_says_what_every_report_says():
    """The sentence about agreement stands in one wording, in reports and in docs/judges.md."""
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")
    assert LexicalJudge.stand_in in " ".join(page.replace("\n> ", " ").split())


@pytest.mark.parametrize("unit", [" ", "a", ".", ". ", "Dr. ", "1.", "\n", "；", '"', "東"])  # noqa: RUF001
def test_a_hostile_text_takes_no_more_time_than_its_length(unit):
    """Retrieved text may be anything: 300,000 characters of one kind are no trap."""
    text = unit * (300_000 // len(unit))
    began = time.process_time()
    claims_of(text)
    grade("capital of France", text)
    assert time.process_time() - began < 5
