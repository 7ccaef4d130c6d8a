"""YAML, strictly: YAML 1.2's booleans, no key twice, and a line and column for every fault."""

import json
import re

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from germane.errors import InputError, SourceLocation
from germane.yamltext import parse_yaml


def fault(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f.yaml")
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("'true'", "true"),
        ("!!str true", "true"),
        ("~", None),
        ("''", ""),
        ("12", 12),
        ("012", 12),
        ("0o14", 12),
        ("0x0C", 12),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
    ],
)
def test_values_follow_yaml_1_2(text, value):
    """`no` is a word, a date is a text, and 012 is twelve."""
    got = parse_yaml(f"[{text}]", "f").json()[0]
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "empty"),
        ("# nothing\n---\n", 1, 1, "empty"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "'a' occurs twice, first on line 1"),
        ("a:\n  'b': 1\n  \"b\": 2\n", 3, 3, "'b' occurs twice, first on line 2"),
        ("a:\n\tb: 1\n", 2, 1, "no tabs"),
        ("a: b: c\n", 1, 5, "put quotes"),
        ("a: @b\n", 1, 4, "put quotes"),
        ("a: 'b\n", 2, 1, "close every quote"),
        ("a: [1, 2\nb: 3\n", 2, 2, "not valid YAML"),
        ("a: 1\n--- \nb: 2\n", 2, 1, "second YAML document"),
        ("a: *b\n", 1, 4, "the alias *b has no anchor"),
        ("a: &b [*b]\n", 1, 8, "the alias *b has no anchor"),
        ("? [a]\n: b\n", 1, 3, "a key of this mapping is a list"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            1,
            4,
            "tag !!python/object/apply:os.system is not supported",
        ),
        ("a: !mine 1\n", 1, 4, "tag !mine"),
        ("a: \x07\n", 1, 4, "U+0007"),
        (r'a: "b\0"', 1, 4, "U+0000"),
        ("<<: 3\n", 1, 1, "merge keys"),
    ],
)
def test_faults_have_their_place(text, line, column, problem):
    """What is wrong, where, and what to write."""
    error = fault(text)
    assert problem in str(error)
    assert error.place == SourceLocation("f.yaml", line, column)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999"])
def test_numbers_are_finite(text):
    """Infinity and NaN are refused where they are used."""
    with pytest.raises(InputError, match="not a finite number"):
        parse_yaml(f"a: {text}", "f").json()


def test_deep_nesting_is_refused_before_it_hurts():
    """A hundred thousand brackets are an error at the hundred-and-first."""
    assert fault("[" * 100_000).place == SourceLocation("f.yaml", 1, 101)


def test_alias_bombs_are_refused():
    """Nine levels of ten aliases each would be a billion values."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "expand to more than" in str(fault(bomb))


def test_anchors_are_read():
    """What is written once may be used again; merge keys are refused."""
    node = parse_yaml("base: &b {x: 1, y: 2}\ntwo: *b\n", "f")
    assert node.json() == {"base": {"x": 1, "y": 2}, "two": {"x": 1, "y": 2}}
    with pytest.raises(InputError, match="f:2:13: merge keys"):
        parse_yaml("base: &b {x: 1, y: 2}\none: {y: 3, <<: *b}\n", "f")


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn"), exclude_characters="\u2028\u2029\ufeff"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_json_is_yaml_and_reads_as_itself(value):
    """Any JSON document is an eval file that says the same."""
    assert parse_yaml(json.dumps({"a": value}, ensure_ascii=False), "f").json() == {"a": value}


@given(VALUES)
def test_what_others_write_as_yaml_reads_as_they_meant_it(value):
    """What PyYAML writes comes back the same, but for texts that are numbers in YAML 1.2 only: it leaves them bare."""
    assume(not re.search(r'\d[eE][-+]?\d|0o[0-7]|"[-+]?0[0-9]*[89][0-9]*"', json.dumps(value)))  # 08 too
    assert parse_yaml(yaml.safe_dump({"a": value}, allow_unicode=True), "f").json() == {"a": value}


@given(st.dictionaries(st.text("abc", min_size=1), st.integers() | st.text("xyz: "), min_size=1), st.data())
def test_a_second_key_is_found_on_its_line(mapping, data):
    """However long the mapping, the second of two equal keys is shown with its line and column."""
    key = data.draw(st.sampled_from(sorted(mapping)))
    lines = [f"  {name}: {json.dumps(value)}" for name, value in mapping.items()]
    error = fault("top:\n" + "\n".join([*lines, f"  {key}: 1"]))
    assert error.place == SourceLocation("f.yaml", len(lines) + 2, 3)
