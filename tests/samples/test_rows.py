"""One row to one sample: the names people use, what they mean, and what is refused."""

import json
import pickle
import subprocess
import sys

import pytest
from msgspec import structs

from germane.encoding import encode_record
from germane.errors import InputError
from germane.samples import Notices, parse_columns, read_samples, samples_from
from germane.samples.fields import FIELDS
from germane.samples.rows import sample_to_json
from germane.types import Call, Context, Evidence, FrozenDict, Message, Sample, ToolCall, freeze


def one(row, **options) -> Sample:
    (sample,) = samples_from([{"id": "q", **row}], **options)
    return sample


@pytest.mark.parametrize("name", ["query", "question", "topic", "user_input", "userInput", "input"])
def test_names_of_the_query(name):
    """Each name of the query is the query."""
    assert one({name: "why?"}).query == "why?"


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        *(
            ({name: ["t"]}, "contexts", (Context(text="t"),))
            for name in ("contexts", "retrieved_contexts", "retrievalContext", "context", "retrieved_context")
        ),
        *(
            ({name: "r"}, "reference", "r")
            for name in ("ground_truth", "groundTruth", "expected_output", "expected", "referenceAnswer")
        ),
        *(({name: "c"}, "criterion", "c") for name in ("criterion", "criteria", "expected_outcome", "expectedOutcome", "outcome")),
        *(
            ({name: "r"}, "response", "r")
            for name in ("response", "actual_output", "actualOutput", "answer", "candidate_answer", "output")
        ),
        *(
            ({name: ["d1", 2]}, "qrels", FrozenDict({"d1": 1, "2": 1}))
            for name in ("qrels", "reference_context_ids", "referenceContextIds", "document_ids", "gold_ids")
        ),
        ({"qrels": {"d1": 2, "d2": -1, "d3": 1.0}}, "qrels", FrozenDict({"d1": 2, "d2": -1, "d3": 1})),
        ({"contexts": []}, "contexts", ()),
        ({"contexts": None}, "contexts", None),
        ({"doc_ids": ["d1", "d2"]}, "contexts", (Context(id="d1"), Context(id="d2"))),
        ({"retrievedContextIds": ["d1"], "contexts": ["t"]}, "contexts", (Context(id="d1", text="t"),)),
        ({"gold": [["d1", "d7"], ["d3"]]}, "gold", (("d1", "d7"), ("d3",))),
        ({"evidence": ["q", {"doc": "d", "start": 0, "end": 3}]}, "evidence", (Evidence(quote="q"), Evidence(doc="d", start=0, end=3))),
        ({"answerable": False}, "answerable", False),
        ({"forbidden": ["d9"]}, "forbidden", ("d9",)),
        ({"history": "before"}, "history", (Message(role="user", content="before"),)),
        ({"calls": [{"query": "s", "contexts": ["t"], "ms": 3, "source": "web"}]}, "calls",
         (Call(query="s", contexts=(Context(text="t"),), ms=3.0, source="web"),)),
    ],
)  # fmt: skip
def test_names_and_shapes_of_the_other_fields(row, field, value):
    """Every alias, snake_case or camelCase, and every shape of a field is read as the field."""
    assert getattr(one({"query": "a", **row}), field) == value


@pytest.mark.parametrize(
    ("written", "context"),
    [
        ({"content": "t", "doc_id": 7, "score": 1}, Context(text="t", id="7", score=1.0)),
        ({"pageContent": "t", "documentId": "d"}, Context(text="t", id="d")),
        ({"id": "d"}, Context(id="d")),
        ({"text": "t", "grade": 0}, Context(text="t", grade=0)),
        ({"text": "t", "relevant": False}, Context(text="t", relevant=False)),
        (
            {"text": "t", "metadata": {"page": 3}, "start": 5, "end": 9, "title": "T"},
            Context(text="t", metadata=FrozenDict({"page": 3, "start": 5, "end": 9, "title": "T"})),
        ),
        ({"text": "t", "content": "u", "id": None}, Context(text="t", metadata={"content": "u"})),
    ],
)
def test_shapes_of_a_context(written, context):
    """A context object may name its parts as the popular libraries do; what else it says is metadata."""
    assert one({"query": "a", "contexts": [written]}).contexts == (context,)


def test_our_own_name_wins_over_an_alias_and_it_is_said():
    """Two spellings of one field that differ: ours, else the first, is read, the other is kept, a notice says so."""
    notices = Notices()
    sample = one({"input": "prompt", "query": "why?", "answer": "a", "output": "b"}, warn=notices)
    assert (sample.query, sample.response) == ("why?", "a")
    assert sample.metadata == {"input": "prompt", "output": "b"}
    assert [n.problem for n in notices] == [
        "the field 'input' is ignored, since another field is also read as query",
        "the field 'output' is ignored, since another field is also read as response",
    ]


def test_columns_say_what_is_what():
    """A mapping goes before every alias, and its own name is then an ordinary field."""
    columns = parse_columns("query=Frage, reference=query")
    sample = one({"Frage": "warum?", "query": "darum"}, columns=columns)
    assert (sample.query, sample.reference) == ("warum?", "darum")


def test_a_mapped_column_that_no_row_has_is_a_warning():
    """A misspelt column would else be a field that is not known, without a word."""
    rows = [{"Query": "a", "Context": ["b"]}, {"Query": "c", "Context": ["d"], "Truth": "e"}]
    columns = {"query": "Query", "contexts": "Contxt", "reference": "Truth"}
    notices = Notices()
    list(samples_from(rows, columns=columns, warn=notices))
    assert "no row has the column 'Contxt', which is given for the field contexts" in [
        notice.problem for notice in notices
    ]
    assert not any("Truth" in notice.problem for notice in notices)


@pytest.mark.parametrize(
    ("text", "problem"), [("query", "is not FIELD=COLUMN"), ("qery=Q", "did you mean query")]
)
def test_columns_that_mean_nothing_are_refused(text, problem):
    """A mapping of an unknown field or of nothing is an error of the flag."""
    with pytest.raises(InputError, match=problem):
        parse_columns(text)


def test_an_id_beside_a_context_must_be_its_id():
    """Ids beside the contexts do not override what a context says itself."""
    with pytest.raises(InputError, match="the context itself has the id 'd1'"):
        one({"query": "a", "contexts": [{"id": "d1", "text": "t"}], "doc_ids": ["d2"]})


def test_every_field_of_a_sample_can_be_written():
    """The table of fields is the fields of Sample, and one that gives contexts their ids."""
    assert set(FIELDS) == {*Sample.__struct_fields__, "retrieved_context_ids"}


def test_what_is_written_reads_back_equal():
    """A sample that went to a file and came back is the same sample."""
    sample = Sample(
        id="q",
        query="why?",
        system="bm25",
        trial=2,
        contexts=(
            Context(text="t", id="d", score=0.5, grade=2, metadata=FrozenDict({"start": 1})),
            Context(id="e"),
        ),
        calls=(Call(query="s", contexts=(Context(text="t", relevant=True),), ms=1.5),),
        reference="r",
        response="a",
        qrels=FrozenDict({"d": 2}),
        gold=(("d", "e"),),
        evidence=(Evidence(quote="t"),),
        answerable=True,
        forbidden=("f",),
        history=(Message(role="user", content="h"),),
        messages=(
            Message(
                role="assistant", tool_calls=(ToolCall(tool="s", input={"q": 1}, output={"results": []}),)
            ),
        ),
        error="late",
        criterion="c",
        cluster="k",
        grade_scale=(0, 2),
        tags=("x",),
        metadata=freeze({"n": {"m": [1, None]}}),
    )
    assert list(samples_from([json.loads(json.dumps(sample_to_json(sample)))])) == [sample]


def test_a_sample_may_have_its_own_scale_of_grades():
    """Grades go from 0 to 3 unless `grade_scale` says otherwise, in the sample's contexts and in those of its calls."""
    graded = {"query": "a", "contexts": [{"text": "t", "grade": 4}], "gradeScale": [0, 4]}
    sample = one(graded)
    assert (sample.grade_scale, sample.contexts) == ((0, 4), (Context(text="t", grade=4),))
    for row, problem in (
        (
            {**graded, "gradeScale": None},
            r"contexts\[0\]\.grade is the number 4, outside the scale 0 to 3; write 0, 1, 2 or 3",
        ),
        (
            {**graded, "gradeScale": [1, 3]},
            r"contexts\[0\]\.grade is the number 4, outside the scale 1 to 3; write a grade from 1 to 3",
        ),
        (
            {**graded, "gradeScale": [4, 0]},
            r"gradeScale is \[4, 0\], whose first grade is not below the second",
        ),
        (
            {"query": "a", "calls": [{"contexts": [{"id": "d", "grade": -1}]}]},
            r"calls\[0\]\.contexts\[0\]\.grade",
        ),
    ):
        with pytest.raises(InputError, match=problem):
            one(row)
    with pytest.raises(ValueError, match="outside the scale 0 to 3"):
        Sample(id="q", query="a", contexts=(Context(text="t", grade=4),))


def test_a_criterion_is_no_reference():
    """What a good answer does goes beside the reference, never into it."""
    sample = one(
        {"query": "a", "outcome": "It names the year.", "ground_truth": "1971", "cluster": "history"}
    )
    assert (sample.criterion, sample.reference, sample.cluster) == ("It names the year.", "1971", "history")
    assert one({"query": "a", "criteria": "c"}).reference is None


def test_numbers_of_numpy_are_numbers():
    """Rows from Python hold what retrievers return."""
    np = pytest.importorskip("numpy")
    (sample,) = samples_from(
        [{"id": np.int64(4), "query": "a", "contexts": [{"text": "t", "score": np.float32(0.5)}]}]
    )
    assert sample == Sample(id="4", query="a", contexts=(Context(text="t", score=0.5),))


@pytest.mark.parametrize(
    "shape",
    [
        {"contexts": [{"id": "d", "text": "t", "score": 0.5}]},
        {"contexts": [{"id": "d", "text": "t", "score": 1}]},
        {"contexts": [{"text": "t", "page": 3, "metadata": {"a": [1]}}, {"id": 7, "text": ""}], "lang": "en"},
        {"retrieved_contexts": [{"doc_id": "d", "content": "t"}], "doc_ids": ["d"], "gold_ids": ["d"]},
        {"calls": [{"query": "s", "contexts": ["t"]}], "metadata": {"a": 1}},
    ],
)
def test_a_row_of_any_shape_makes_the_same_record(tmp_path, shape):
    """From a line, a mapping and what was written of it; equal records have equal hashes, and survive pickling."""
    row = {"id": "q", "user_input": "a", **shape}
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    (sample,) = read_samples(path)
    path.write_bytes(encode_record(sample))
    (again,) = read_samples(path)
    for other in (again, one(row), pickle.loads(pickle.dumps(sample)), structs.replace(sample)):
        assert other == sample
        assert hash(other) == hash(sample)


def test_reading_json_lines_needs_no_pydantic(tmp_path):
    """It would take longer to load than most files take to read."""
    path = tmp_path / "one.jsonl"
    path.write_text('{"query": "a", "contexts": ["t"]}', "utf-8")
    code = "import sys, germane; list(germane.read_samples(sys.argv[1])); sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"qrels": {"d": 10**400}}, r"qrels\.d is a number of more than 38 digits; write a whole number <="),
        (
            {"contexts": [{"text": "t", "score": 10**400}]},
            r"contexts\[0\]\.score is a number of more than 38",
        ),
        ({"contexts": [{"text": "t", "grade": -(10**30)}]}, r"contexts\[0\]\.grade is the number -1"),
        ({"trial": 2**64}, "trial is the number 18446744073709551616; write a whole number <="),
        (
            {"calls": [{"contexts": [], "ms": -4}]},
            r"calls\[0\]\.ms is -4.0, a negative duration; write milliseconds >= 0",
        ),
    ],
)
def test_numbers_that_nothing_holds_are_refused(row, problem):
    """As a grade, a score, a trial or a time, each at its place."""
    with pytest.raises(InputError, match=problem):
        one({"query": "a", **row})


def test_gold_without_groups_says_what_to_write_instead() -> None:
    """A list of ids may mean that each is relevant, or that all are needed."""
    with pytest.raises(InputError, match=r"not a list of ids.*qrels"):
        list(samples_from([{"query": "q", "gold": ["a", "b"]}]))
    (sample,) = samples_from([{"query": "q", "gold": [["a"], ["b", "c"]]}])
    assert sample.gold == (("a",), ("b", "c"))


def test_contexts_without_an_order_are_an_error():
    """A set of passages is no ranking."""
    with pytest.raises(InputError, match="contexts is a value of type set"):
        list(samples_from([{"query": "q", "contexts": {"a"}}]))
