"""JSON Lines: every fault is an InputError at the line and column where it stands."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import InputError, SourceLocation
from germane.evaluation.rank import rank
from germane.samples import Notices, read_samples, samples_from
from germane.samples.files import Notice
from germane.samples.reading import faults_in
from germane.types import Context, Sample

GOOD = '{"id": "q1", "query": "why?"}'


def write(tmp_path: Path, text: str | bytes, name: str = "eval.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def fault(tmp_path: Path, text: str | bytes, name: str = "eval.jsonl") -> InputError:
    path = write(tmp_path, text, name)
    with pytest.raises(InputError) as caught:
        list(read_samples(path))
    assert caught.value.fix
    return caught.value


def at(error: InputError) -> tuple[int, int]:
    assert error.place is not None
    return error.place.line, error.place.column


def test_byte_order_mark_crlf_and_blank_lines_are_no_samples(tmp_path):
    """A file from Windows reads like any other, and only lines without an id get their number as id."""
    text = b'\xef\xbb\xbf{"query": "a"}\r\n\r\n   \n{"query": "b", "id": 7}\r\n{"query": "c"}'
    assert [s.id for s in read_samples(write(tmp_path, text))] == ["1", "7", "5"]


MANY = "".join(f'{{"id": "q{n}", "query": "why {n * n}?"}}\n' for n in range(30_000)).encode()
"""Compressed, this fills several blocks."""


def zstandard_of(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


@pytest.mark.parametrize(("pack", "end"), [(gzip.compress, "gz"), (zstandard_of, "zst")])
def test_packed_files_read_the_same(pack, end, tmp_path):
    """A packed file of a format is the same format, in one piece or several."""
    half = MANY.index(b"\n", len(MANY) // 2) + 1
    path = write(tmp_path, pack(MANY[:half]) + pack(MANY[half:]), f"eval.jsonl.{end}")
    assert [s.id for s in read_samples(path)] == [f"q{n}" for n in range(30_000)]


@pytest.mark.parametrize("lost", [9, 5_000, 0.5])
@pytest.mark.parametrize(("pack", "end"), [(gzip.compress, "gz"), (zstandard_of, "zst")])
def test_a_cut_off_packed_file_is_an_error(pack, end, lost, tmp_path):
    """Never the rows before the cut alone: of samples, a run and gold, in one piece or after a whole one."""
    packed = pack(MANY)
    cut = packed[: -lost if lost >= 1 else int(lost * len(packed))]
    for data in (cut, pack(b"\n") + cut):
        assert "damaged" in str(fault(tmp_path, data, f"eval.jsonl.{end}"))
    rows = b"".join(b"q%d Q0 d%d 1 %d.5 t\n" % (n, n * n, n) for n in range(30_000))
    run = write(tmp_path, pack(rows), "a.run")
    gold = write(tmp_path, pack(b"".join(b"q%d 0 d%d 1\n" % (n, n * n) for n in range(30_000))), "a.gold")
    assert rank(run, gold, "RR")["RR"].mean == 1
    for path in (run, gold):
        whole = path.read_bytes()
        path.write_bytes(whole[: -lost if lost >= 1 else int(lost * len(whole))])
        with pytest.raises(InputError, match=f"{path.name}: this compressed file is damaged"):
            rank(run, gold, "RR")
        path.write_bytes(whole)


TRAILING_COMMA = (14, "trailing comma") if sys.version_info >= (3, 13) else (15, "double quotes")


def test_every_fault_is_found(tmp_path):
    """Faults of each kind do not hide those of later lines, in blocks of one kind of line and of several."""
    bad = [b'{"query": "caf\xe9"}', b'{"query": 5}', b"{", b'{"query": "a", "query": "b"}', b"[1]"]
    for before in (0, 70):
        good = [b'{"query": "a"}'] * before
        path = write(tmp_path, b"\n".join([*good, *bad, *good, *bad]) + b"\n")
        lines = [fault.place.line - before for fault in faults_in(path) if fault.place]
        assert lines == [1, 2, 3, 4, 5, *(n + before + 5 for n in (1, 2, 3, 4, 5))]


@pytest.mark.parametrize("text", ["", "\n\n", "   \r\n"])
def test_an_empty_file_is_an_error(tmp_path, text):
    """Nothing to evaluate is said, not evaluated."""
    assert "no samples" in str(fault(tmp_path, text))


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        ('{"query": "a", "qrels": {"d": 1, "d": 2}}', 34, "'d' occurs twice"),
        ('{"query": "a", "gold_ids": {"d" : 1,"e}": 1,"d":2}}', 45, "'d' occurs twice"),
        ('{"query": "a", "qr\\u0065ls": {"d": 1, "d": 2}}', 39, "'d' occurs twice"),
        (
            '{"query": "a", "metadata": {"qrels": {"a": 1}}, "qrels": {"b": 1, "b": 2}}',
            67,
            "'b' occurs twice",
        ),
        ('{"query": "a", "qrels": {"d\\"": 1, "d\\"": 2}}', 36, "occurs twice"),
        ('{"query": "a", "score": NaN}', 25, "NaN"),
        ('{"query": "a", "score": [1, -Infinity]}', 29, "NaN"),
        ('{"query": "a", "contexts": [{"text": "t", "score": 1e999}]}', 52, "contexts[0].score is inf"),
        ('{"query": "a", "note": 1e999}', 0, "inf"),
        (
            '{"query": "a", "contexts": ["x", {"text": "t", "grade": 5}]}',
            57,
            "contexts[1].grade is the number 5",
        ),
        ('{"query": "a", "contexts": [{"text": "t", "grade": true}]}', 52, "grade is true"),
        (
            '{"query": "a", "contexts": [{"text": "t", "grade": 1, "relevant": true}]}',
            29,
            "both grade and relevant",
        ),
        ('{"query": "a", "contexts": [{"text": "t", "relevant": 1}]}', 55, "relevant is the number 1"),
        ('{"query": "a", "contexts": [{"score": 1}]}', 29, "neither text nor id"),
        ('{"query": "a", "contexts": "t"}', 28, "contexts is the string 't'"),
        ('{"query": "a", "contexts": [["t"]]}', 29, "contexts[0] is a list"),
        ('{"query": 5}', 11, "query is the number 5"),
        ('{"query": "  "}', 11, "query is empty"),
        ('{"id": "q", "reference": "r"}', 0, "no query"),
        ('{"id": "", "query": "a"}', 8, "id is the string ''"),
        ('{"id": true, "query": "a"}', 8, "id is true"),
        ('{"query": "a", "qrels": {"d1": "high"}}', 32, "qrels.d1 is the string 'high'"),
        ('{"query": "a", "qrels": {"d1": 1.5}}', 32, "qrels.d1"),
        ('{"query": "a", "tags": "tax"}', 24, "tags is the string 'tax'"),
        ('{"query": "a", "trial": -1}', 25, "trial is the number -1"),
        ('{"query": "a", "answerable": "no"}', 30, "answerable is the string 'no'"),
        (
            '{"query": "a", "contexts": ["x"], "doc_ids": ["d1", "d2"]}',
            46,
            "doc_ids has 2 ids for 1 context; write one",
        ),
        (
            '{"query": "a", "doc_ids": "d1"}',
            27,
            "doc_ids is the string 'd1', not a list of ids; write a list: [",
        ),
        ('{"query": "a", "calls": [{"query": "b"}]}', 26, "calls[0] has no contexts"),
        ('{"query": "a", "evidence": [{"start": 1}]}', 29, "neither a quote"),
        ('{"query": "a", "history": [{"content": "x"}]}', 28, "history[0] has no role"),
        ("[1, 2]", 0, "this sample is a list, not an object"),
        ('{"query": "a"', 14, "ends too early"),
        ('{"query": "a}', 11, "unterminated string"),
        ("{'query': 'a'}", 2, "double quotes"),
        ('{"query": "a",}', *TRAILING_COMMA),
        ('{"query": "a"} {"query": "b"}', 16, "extra data"),
        ('{"query": "a", "n": ' + "9" * 5000 + "}", 1, "too many digits"),
    ],
)
def test_a_fault_is_named_with_its_column(tmp_path, line, column, problem):
    """Whatever is wrong in a line is said with the line, what it is, and the column where one value is to blame."""
    error = fault(tmp_path, f"{GOOD}\n\n{line}\n")
    assert problem in str(error).replace("Expecting", "expecting").replace("Unterminated", "unterminated")
    assert at(error) == (3, column)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [150, 100_000])
def test_bottomless_nesting_is_refused(tmp_path, opening, depth):
    """Deep JSON is an error of its line, not a crash."""
    closing = "]" if opening == "[" else "}"
    line = '{"query": "a", "x": ' + opening * depth + "1" + closing * depth + "}"
    error = fault(tmp_path, line)
    assert "nested more than 100" in str(error)
    assert at(error)[0] == 1


def test_a_pretty_printed_document_is_told_its_name(tmp_path):
    """JSON in a .jsonl file is told what to be called."""
    assert "name it .json" in str(fault(tmp_path, json.dumps([{"query": "a"}], indent=1)))


@given(st.text(alphabet="aé漢😀 ", max_size=30))
def test_broken_utf8_is_found_to_the_character(tmp_path_factory, before):
    """The column of a byte that is no UTF-8 counts characters, as editors do."""
    line = b'{"query": "' + before.encode() + b'\xff"}'
    error = fault(tmp_path_factory.mktemp("t"), GOOD.encode() + b"\n" + line)
    assert at(error) == (2, 12 + len(before))
    assert "0xff is not UTF-8" in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans(), st.sampled_from([", ", ",", " , "]))
def test_a_syntax_error_is_where_the_junk_was_put(tmp_path_factory, value, ascii_only, comma):
    """Junk after any JSON value is found at its very column."""
    start = f'{{"query": "q"{comma}"x": {json.dumps(value, ensure_ascii=ascii_only)} '
    error = fault(tmp_path_factory.mktemp("t"), f"{start}junk}}".encode("utf-8", "replace"))
    assert at(error) == (1, len(start) + 1)


COLONS = st.text(alphabet='": \\\t\ra', max_size=6)
GAPS = st.sampled_from(["", " ", "  ", "\t", "\r"])


@given(JSON | COLONS, st.text(max_size=8) | COLONS, GAPS, COLONS, st.booleans())
def test_a_key_that_is_there_twice_is_found_wherever_it_is(tmp_path_factory, value, key, gap, more, escaped):
    """Reading and `validate` find every key that is there twice; the second one is shown."""
    colon = '{"\\u003a": "\\u003A"}' if escaped else "{}"
    written = [json.dumps(item, separators=(", ", f"{gap}: ")) for item in ({more: value}, value)]
    start = f'{{"query": "q", "x": [{colon}, {written[0]}, {{{json.dumps(key)}{gap}: {written[1]}, '
    path = write(tmp_path_factory.mktemp("t"), f"{start}{json.dumps(key)}: 1}}]}}")
    (error,) = faults_in(path)
    assert "occurs twice" in str(error)
    assert at(error) == (1, len(start) + 1)
    with pytest.raises(InputError) as raised:
        list(read_samples(path))
    assert str(raised.value) == str(error)


def test_lone_surrogates_become_replacement_characters(tmp_path):
    """Half of a surrogate pair cannot be written anywhere later, so it is replaced; a whole pair is a character."""
    text = r'{"query": "a\ud83d b\ud83d\ude00", "note": {"k\udc00": ["\udfff"]}}'
    (sample,) = read_samples(write(tmp_path, text))
    assert sample.query == "a\ufffd b😀"
    assert sample.metadata == {"note": {"k\ufffd": ("\ufffd",)}}
    assert list(samples_from([{"query": "a\ud83d"}])) == [Sample(id="1", query="a\ufffd")]


@pytest.mark.parametrize(
    ("second", "same"),
    [
        ('{"id": "q1", "query": "b"}', True),
        ('{"id": "q1", "query": "b", "system": "bm25"}', False),
        ('{"id": "q1", "query": "b", "trial": 1}', False),
    ],
)
def test_one_identity_is_there_once(tmp_path, second, same):
    """(id, system, trial) names a sample: a second one names both lines."""
    path = write(tmp_path, f"{GOOD}\n\n{second}")
    if not same:
        assert len(list(read_samples(path))) == 2
        return
    error = fault(tmp_path, path.read_text())
    assert at(error)[0] == 3
    assert "'q1' also occurs on line 1" in str(error)


def test_a_line_number_that_is_somebodys_id_is_a_clash(tmp_path):
    """The number given to a line without an id cannot be another's id."""
    assert "on line 1" in str(fault(tmp_path, '{"id": 3, "query": "a"}\n\n{"query": "b"}'))


def test_a_missing_file_and_an_unknown_format_are_told_at_once(tmp_path):
    """Not when the first sample is read: the mistake is in the call."""
    with pytest.raises(InputError, match="no such file"):
        read_samples(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"\.jsonl or"):
        read_samples(write(tmp_path, GOOD, "eval.txt"))


def test_samples_stream(tmp_path):
    """What stands before a fault is handed out before it is met: nothing waits for the end of the file."""
    rows = read_samples(write(tmp_path, f"{GOOD}\nnonsense"))
    assert next(rows) == Sample(id="q1", query="why?")
    with pytest.raises(InputError):
        next(rows)


def test_rows_from_python_read_the_same():
    """Dicts follow the rules of a line; samples and contexts that are made already pass."""
    made = Sample(id="a", query="made")
    got = list(samples_from([made, {"question": "b", "contexts": [Context(text="t")]}]))
    assert got == [made, Sample(id="2", query="b", contexts=(Context(text="t"),))]
    with pytest.raises(InputError) as caught:
        list(samples_from([made, {"id": "a", "query": "again"}]))
    assert caught.value.place == SourceLocation("samples", 2)


def test_a_slip_of_a_name_is_said_once_and_kept_as_metadata(tmp_path):
    """A field close to a known one is probably it; other fields are people's own business."""
    lines = [
        '{"query": "a", "querry": 1, "colour": 2}',
        '{"query": "b", "querry": 1, "retreived_contexts": []}',
    ]
    notices = Notices()
    samples = list(read_samples(write(tmp_path, "\n".join(lines)), warn=notices))
    assert samples[0].metadata == {"querry": 1, "colour": 2}
    assert [(n.place.line, n.fix) for n in notices] == [  # type: ignore[union-attr]
        (1, "did you mean 'query'?"),
        (2, "did you mean 'retrieved_contexts'?"),
    ]


LINE: dict[str, Any] = {
    "id": "a",
    "query": "q",
    "contexts": [{"id": "d1", "text": "t", "score": 1}],
    "qrels": {"d1": 1},
}
CHANGES: list[dict[str, Any]] = [
    {},
    {"query": " "},
    {"query": None},
    {"id": 7},
    {"trial": 2.0},
    {"error": ""},
    {"error": "broken"},
    {"forbidden": ["d1;d2"]},
    {"qrels": ["d1"]},
    {"qrels": {"d1": 2.0}},
    {"reference": None},
    {"reference": 3},
    {"metadata": {"a": {"b": [1]}}},
    {"tags": ["x"], "cluster": "c", "grade_scale": [0, 4]},
    {"qustion": "x"},
    {"calls": [{"contexts": ["t"]}, {"error": "late"}]},
    {"messages": [{"role": "user", "content": "a:b"}]},
    {"stages": [{"name": "bm25", "ids": [1]}]},
    {"evidence": [{"quote": "t"}]},
    *(
        {"contexts": [context, {"id": "d2", "text": "u"}]}
        for context in (
            "t",
            {"text": ""},
            {"id": "d1", "text": ""},
            {"id": "d1"},
            {"id": 1, "text": "t"},
            {"text": "t", "metadata": {"doc_id": "d1"}},
            {"text": "t", "page": 1},
            {"text": "t", "grade": 9},
            {},
        )
    ),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("end", ["", ', "id": "twice"', ', "r\\u0065ference": "x", "reference": "y"'])
def test_a_line_is_read_alike_wherever_it_stands(change: dict[str, Any], end: str, tmp_path: Path) -> None:
    """Lines after the first may be read many at a time: the same samples, warnings and errors."""
    line = json.dumps(LINE | change)[:-1] + end + "}\n"
    found = []
    for before in (0, 200):
        path = tmp_path / f"{before}.jsonl"
        path.write_text("".join(f'{{"id": "x{n}", "query": "q"}}\n' for n in range(before)) + line)
        notices: list[Notice] = []
        try:
            last: object = list(read_samples(path, warn=notices.append))[-1]
        except InputError as fault:
            last = str(fault)
        found.append(repr((last, [*map(str, notices)])).replace(f"{before}.jsonl:{before + 1}", "HERE"))
    assert found[0] == found[1]
