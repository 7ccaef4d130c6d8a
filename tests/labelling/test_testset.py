"""`germane validate` of a test set: planted faults are found, and sound sets and TREC's own files raise no warning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.command import invoke

TREC = Path(__file__).parents[1] / "data" / "trec_eval"
ASKED = (
    "What is the boiling point of water at sea level?", "How do I reset my router password?", "Who painted the Sistine Chapel?",
    "When did the Berlin Wall fall?", "Which enzyme breaks down lactose?", "How long does a green card renewal take?",
    "What causes northern lights?", "Where are emperor penguins found?", "Why did the Roman Republic collapse?",
    "How many moons does Jupiter have?",
)  # fmt: skip
PASSAGES = (
    "At a pressure of one atmosphere pure water begins to boil when it reaches 100 degrees Celsius, and less in the mountains.",
    "Hold the small button on the back for ten seconds; the device restarts and takes the credentials on its label again.",
    "Michelangelo worked from 1508 to 1512 on the frescoes that cover the vault of the pope's chapel in the Vatican.",
    "On the ninth of November 1989 the border crossings were opened and people began to tear the barrier down.",
    "Lactase, made in the small intestine, splits milk sugar into glucose and galactose, which the body can absorb.",
    "Form I-90 is processed in about ten to twelve months, depending on the service centre that handles the case.",
    "Charged particles from the sun meet the upper atmosphere near the poles and make oxygen and nitrogen glow.",
    "The tallest of its family breeds on the sea ice of Antarctica during the coldest months of the year.",
    "Civil wars, rivalry between generals and a senate that lost control ended the rule of elected consuls.",
    "Ninety-five natural satellites had been confirmed by 2023, of which the four largest were seen by Galileo.",
)
VARIANTS = ("{}", "{}!!", "please, {}", '"{}"', "{} ?")


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def corpus(folder: Path) -> Path:
    return write(folder / "corpus.jsonl", [{"id": f"d{n}", "text": text} for n, text in enumerate(PASSAGES)])


def asked(**more: Sequence[Any]) -> list[dict[str, Any]]:
    """The ten questions with a gold document each, and further fields, a value for each question."""
    rows = [{"id": f"q{n}", "query": text, "qrels": {f"d{n}": 1}} for n, text in enumerate(ASKED)]
    return [row | {name: values[n] for name, values in more.items()} for n, row in enumerate(rows)]


def checks(*words: object) -> dict[str, dict[str, Any]]:
    """The checks of `germane validate`, by name; it ends with 0, warnings or not."""
    ran = invoke("validate", *words, "--json")
    assert ran.code == 0, ran.err
    assert [check["name"] for check in ran.json["checks"]] == [
        "duplicates", "leaks", "one-system gold", "dead gold", "classes", "width",
    ]  # fmt: skip
    return {check["name"]: check for check in ran.json["checks"]}


def warnings(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, check in found.items() if check["status"] == "warning"]


def test_a_sound_set_has_no_warning(tmp_path: Path) -> None:
    """Each check that can be made is ok, and the width is that of ten queries: t(9) x .3 / sqrt(10) = .215."""
    found = checks(write(tmp_path / "s.jsonl", asked()), "--corpus", corpus(tmp_path))
    assert warnings(found) == []
    assert [found[name]["status"] for name in ("duplicates", "leaks", "dead gold", "width")] == ["ok"] * 4
    assert (found["width"]["count"], found["width"]["of"]) == (10, 10)
    assert found["width"]["examples"] == ["interval +-0.215", "difference 0.199"]


@pytest.mark.parametrize(
    "files",
    [
        ["qrels.test"],
        ["results.test", "--qrels", "qrels.test"],
        ["results.test", "results.trunc", "qrels.test"],
    ],
)
def test_no_false_alarm_on_files_of_trec(files: list[str]) -> None:
    """Gold by itself or with runs is a test set whose queries have no text."""
    found = checks(*(word if word.startswith("--") else TREC / word for word in files))
    assert warnings(found) == []
    assert found["duplicates"]["status"] == "not checked"
    assert found["width"]["count"] == 3


def test_ten_questions_five_times(tmp_path: Path) -> None:
    """Other punctuation makes no other question; a `cluster` says so, and then nothing is left to warn of."""
    rows = [
        {"id": f"q{n}v{v}", "query": variant.format(text), "qrels": {f"d{n}": 1}, "cluster": f"c{n}"}
        for v, variant in enumerate(VARIANTS)
        for n, text in enumerate(ASKED)
    ]
    without = [{key: value for key, value in row.items() if key != "cluster"} for row in rows]
    found = checks(write(tmp_path / "s.jsonl", without))
    assert warnings(found) == ["duplicates"]
    assert (found["duplicates"]["count"], found["duplicates"]["of"]) == (40, 50)
    assert found["duplicates"]["examples"][0].startswith("q0v0, q0v1, q0v2, q0v3, q0v4")
    assert found["width"]["count"] == 10
    said = invoke("validate", tmp_path / "s.jsonl")
    assert (said.code, said.out.count("\n")) == (0, 6)
    assert "`cluster`" in said.out
    clustered = checks(write(tmp_path / "c.jsonl", rows))
    assert warnings(clustered) == []
    assert clustered["width"]["count"] == 10


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("What is the capital of France?", "whats the capital of france", True),
        ("What's the capital of France?", "what is the capital of FRANCE", True),
        ("Hi, can you tell me how tall the Eiffel Tower is?", "how tall the eiffel tower", True),
        ("how do I renew a passport", "how do I renew a pasport?", True),
        ("how do I renew a passport", "how do I reenw passports please", True),
        ("What is the capital of France?", "What is the capital of Spain?", False),
        ("flights from Paris to London", "flights from London to Paris", False),
        ("Can I take it with aspirin", "Can I take it without aspirin", False),
        ("Is the vaccine safe", "Isn't the vaccine safe", False),
        ("what is vitamin A", "what is vitamin", False),
        ("How do I reset my e-mail password?", "how can i reset my email password", True),
        ("is 10,000 steps enough", "Is 10000 steps enough?", True),
        ("Wer war Caf\u00e9 Muellers Gruender", "wer war cafe muellers gruender", True),
        ("why can't I log in", "Why cannot I log in?", True),
        ("why can I log in", "why can't I log in", False),
        ("plan B cost", "plan A cost", False),
        ("revenue in 2021", "revenue in 2022", False),
        ("wo steht der Eiffelturm", "Wo steht der Eiffelturm ?", True),
        ("東京の人口は\uff1f", "東京の人口は", True),
        ("東京の人口は\uff1f", "大阪の人口は\uff1f", False),
    ],
)
def test_one_question_or_two(tmp_path: Path, first: str, second: str, same: bool) -> None:
    """Case, punctuation, courtesy and a slip make no new question; a name, a number, a direction or a `not` does."""
    rows = [{"id": "a", "query": first}, {"id": "b", "query": second}]
    assert checks(write(tmp_path / "s.jsonl", rows))["duplicates"]["count"] == int(same)


@pytest.mark.parametrize(("gold", "same"), [("d1", True), ("d2", False)])
def test_the_words_in_another_order(tmp_path: Path, gold: str, same: bool) -> None:
    """Questions of the same words are one where they have the same gold."""
    rows = [
        {"id": "a", "query": "The passport renewal: how much?", "qrels": {"d1": 1}},
        {"id": "b", "query": "how much is a renewal passport", "qrels": {gold: 1}},
    ]
    assert checks(write(tmp_path / "s.jsonl", rows))["duplicates"]["count"] == int(same)


def test_gold_and_history_tell_questions_apart(tmp_path: Path) -> None:
    """One letter between two names with other gold is no slip, and a follow-up is a question with what was said before."""
    rows: list[dict[str, Any]] = [
        {"id": "a", "query": "who is Anna Johnson", "qrels": {"d1": 1}},
        {"id": "b", "query": "who is Anna Johnston", "qrels": {"d2": 1}},
        {"id": "c", "query": "and in winter?", "history": [{"role": "user", "content": "is the pass open"}]},
        {"id": "d", "query": "and in winter?", "history": [{"role": "user", "content": "is the lake warm"}]},
    ]
    assert warnings(checks(write(tmp_path / "s.jsonl", rows))) == []


def test_a_hundred_thousand_queries_take_seconds(tmp_path: Path) -> None:
    """Questions from one template share all words but one: their number is not squared."""
    rows = [{"id": str(n), "query": f"what does supplier {n} charge for part"} for n in range(20_000)]
    started = process_time()
    assert checks(write(tmp_path / "s.jsonl", rows))["duplicates"]["count"] == 0
    assert process_time() - started < 20


def test_questions_copied_from_their_passage(tmp_path: Path) -> None:
    """Half a passage as a question is a leak; where only the contexts hold the passage, these are looked at."""
    queries = [" ".join(text.split()[2:12]) if n < 4 else ASKED[n] for n, text in enumerate(PASSAGES)]
    contexts = [[{"id": f"d{n}", "text": text}] for n, text in enumerate(PASSAGES)]
    for source in (("--corpus", corpus(tmp_path)), ()):
        found = checks(write(tmp_path / "s.jsonl", asked(query=queries, contexts=contexts)), *source)
        assert warnings(found) == ["leaks"]
        assert (found["leaks"]["count"], found["leaks"]["of"]) == (4, 10)
        assert [example[:3] for example in found["leaks"]["examples"]] == ["q0:", "q1:", "q2:", "q3:"]


@pytest.mark.parametrize(("labelled", "status"), [("first", "warning"), ("both", "ok")])
def test_gold_of_one_systems_results(tmp_path: Path, labelled: str, status: str) -> None:
    """Gold drawn from the first three places of one of two systems is all there, and little of it in the other's."""
    rows: list[dict[str, Any]] = []
    for n, text in enumerate(ASKED):
        lists = {
            "first": [f"{n}a{at}" for at in range(5)],
            "second": [f"{n}a0", *(f"{n}b{at}" for at in range(4))],
        }
        gold = lists["first"][:3] + (lists["second"][1:3] if labelled == "both" else [])
        rows += [
            {"id": f"q{n}", "query": text, "system": system, "qrels": dict.fromkeys(gold, 1),
             "contexts": [{"id": name} for name in listed]}
            for system, listed in lists.items()
        ]  # fmt: skip
    found = checks(write(tmp_path / "s.jsonl", rows))["one-system gold"]
    assert found["status"] == status
    if status == "warning":
        assert (found["count"], found["of"]) == (30, 30)
        assert found["examples"] == ["first: 100% of the gold in its first 3; second 33%"]


def test_a_file_for_each_system(tmp_path: Path) -> None:
    """Files whose samples name no system are one system each, and a query of both is one query."""
    for name in ("dense", "sparse"):
        write(
            tmp_path / f"{name}.jsonl",
            asked(contexts=[[{"id": f"d{n if name == 'dense' else -n - 1}"}] for n in range(10)]),
        )
    found = checks(tmp_path / "dense.jsonl", tmp_path / "sparse.jsonl")
    assert warnings(found) == ["one-system gold"]
    assert found["one-system gold"]["examples"] == ["dense: 100% of the gold in its first 1; sparse 0%"]
    assert (found["width"]["count"], found["duplicates"]["of"]) == (10, 10)


def test_a_folder_of_samples(tmp_path: Path) -> None:
    """The files in it are one test set; a folder with neither is an error."""
    (tmp_path / "sets").mkdir()
    write(tmp_path / "sets" / "a.jsonl", asked())
    assert checks(tmp_path / "sets")["width"]["count"] == 10
    (tmp_path / "none").mkdir()
    assert invoke("validate", tmp_path / "none").code == 2


def test_gold_that_the_corpus_lacks(tmp_path: Path) -> None:
    """Each id is named with the query that it is gold of; grades of 0 are no gold."""
    rows = asked()
    rows[3]["qrels"] = {"gone": 2, "other": 0}
    found = checks(write(tmp_path / "s.jsonl", rows), "--corpus", corpus(tmp_path))
    assert warnings(found) == ["dead gold"]
    assert (found["dead gold"]["count"], found["dead gold"]["of"]) == (1, 10)
    assert found["dead gold"]["examples"] == ["gone (q3)"]
    chunks = [row | {"qrels": {f"d{n}#2": 1}} for n, row in enumerate(rows)]
    found = checks(write(tmp_path / "c.jsonl", chunks), "--corpus", corpus(tmp_path))
    assert "ids of the corpus are like d0, gold ids like d0#2" in found["dead gold"]["note"]


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"tags": ["multi-hop"], "qrels": {"d0": 1}}, True),
        ({"tags": ["Multihop"], "qrels": {"d0": 1, "d9": 0}}, True),
        ({"metadata": {"hops": 2}, "qrels": {"d0": 1}}, True),
        ({"metadata": {"question_type": "multi_hop"}, "qrels": {"d0": 1}}, True),
        ({"tags": ["single-hop"], "gold": [["d0"], ["d1"]]}, True),
        ({"tags": ["unanswerable"], "qrels": {"d0": 1}}, True),
        ({"tags": ["answerable"], "answerable": False}, True),
        ({"answerable": False, "qrels": {"d0": 1}}, True),
        ({"answerable": False}, False),
        ({"tags": ["multi-hop"], "qrels": {"d0": 1, "d1": 1}}, False),
        ({"tags": ["single-hop"], "qrels": {"d0": 1, "d1": 1}}, False),
        ({"tags": ["unanswerable"], "answerable": False}, False),
    ],
)
def test_tags_that_contradict_the_gold(tmp_path: Path, more: dict[str, Any], wrong: bool) -> None:
    """A class says how many documents are needed, or that none is there."""
    found = checks(write(tmp_path / "s.jsonl", [{"id": "q", "query": "x"} | more]))["classes"]
    assert (found["status"], found["count"], found["of"]) == ("warning" if wrong else "ok", int(wrong), 1)


def test_queries_with_separate_gold(tmp_path: Path) -> None:
    """A BEIR folder brings its corpus; queries as BEIR, MS MARCO and we write them go with gold of their own."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"q{n}", "text": text} for n, text in enumerate(ASKED)]
    write(folder / "queries.jsonl", [*queries, {"_id": "q10", "text": ASKED[0].upper()}])
    corpus(folder)
    lines = [f"q{n}\td{n}\t1" for n in range(10)] + ["q10\tgone\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    found = checks(folder)
    assert warnings(found) == ["duplicates", "dead gold"]
    trec = tmp_path / "gold.txt"
    trec.write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(9)))
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{text}\n" for n, text in enumerate(ASKED)))
    own = write(tmp_path / "own.jsonl", [{"id": f"q{n}", "query": text} for n, text in enumerate(ASKED)])
    for named in (folder / "queries.jsonl", tmp_path / "queries.tsv", own):
        for gold in (["--qrels", trec], [trec]):
            found = checks(named, *gold, "--corpus", folder)
            assert warnings(found) == []
            assert found["dead gold"]["of"] == found["duplicates"]["of"] == 9


def test_the_shipped_example_has_no_warning() -> None:
    """Its questions were written for its passages, and are not copied from them; documents are no queries."""
    example = Path(__file__).parents[2] / "examples" / "rag-evaluation"
    found = checks(example / "evals" / "retrieval-set.jsonl", "--corpus", example / "corpus")
    assert warnings(found) == []
    assert [found[name]["status"] for name in ("leaks", "dead gold", "classes")] == ["ok"] * 3
    assert warnings(checks(example / "recorded" / "answers-good.jsonl")) == []
    assert invoke("validate", example / "corpus" / "passages.jsonl").code == 2


def test_faults_come_before_checks(tmp_path: Path) -> None:
    """A file that cannot be read is exit code 2, and nothing of it is checked; an eval file has no checks."""
    rows = asked(contexts=[[{"id": "d0"}]] * 10)
    write(tmp_path / "s.jsonl", [{"id": "q", "query": 5}])
    ran = invoke("validate", tmp_path / "s.jsonl", "--json")
    assert (ran.code, ran.json["exit_code"], ran.json["checks"]) == (2, 2, [])
    assert "s.jsonl:1" in ran.json["faults"][0]
    assert invoke("validate", write(tmp_path / "t.jsonl", rows), "--qrels", tmp_path / "none").code == 2
    (tmp_path / "e.yaml").write_text("data: t.jsonl\nmeasures: [R@5]\n")
    (tmp_path / ".git").mkdir()
    ran = invoke("validate", tmp_path / "e.yaml", "--json")
    assert (ran.code, ran.json["faults"], ran.json["checks"]) == (0, [], [])


def test_two_queries_are_too_few(tmp_path: Path) -> None:
    """An interval wider than the range, and a difference beyond it, are not given as what the set can show."""
    for n, status in ((1, "warning"), (2, "warning"), (3, "ok")):
        rows = asked(contexts=[[{"id": "d0"}]] * 10)[:n]
        found = checks(write(tmp_path / "s.jsonl", rows))["width"]
        assert found["status"] == status
        assert ("too few" in found["note"]) == (status == "warning")
