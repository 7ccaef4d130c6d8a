"""`germane label` for a drafted set: a person checks questions drawn at random, one key each, without a model's opinion."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from germane.addons.draft import document as files
from germane.clean import clean, counted
from germane.cli import print_document
from germane.cli.keyboard import keyboard
from germane.cli.values import print_lines
from germane.encoding import now
from germane.errors import InputError

KEYS = {
    "f": "fine",
    "n": "nobody would ask this",
    "t": "the text does not say it",
    "w": "answer wrong",
    "a": "not understandable alone",
    "u": "unsure",
}
_PROMPT = ", ".join(f"{key} {name}" for key, name in KEYS.items()) + ", s skip, q quit"


def label(
    folder: Path, *, who: str, budget: int | None, seed: int, json: bool, drop_bad: bool = False, **_: Any
) -> None:
    """Ask a person about drafted questions until the budget is used up; every answer is saved at once."""
    document = files.read_document(folder)
    if document is None:
        raise InputError(f"{folder} holds no drafted set", fix="name the folder of germane draft -o")
    rows = files.read_rows(folder / files.SAMPLES)
    _ask(folder, document, rows, who=who, budget=budget, seed=seed, silent=json)
    removed = set(document["removed"])
    labels = [
        label
        for label in files.read_labels(folder, rows)
        if label["item"] in removed | {row["id"] for row in rows}
    ]
    checked = document["checked_by_people"] = files.checked_by_people(labels)
    if drop_bad:
        removed |= {row["item"] for row in labels if row["answer"] not in ("fine", "unsure")}
    document["removed"] = sorted(removed)
    looked_at = {row["item"] for row in labels}
    rows = [row for row in rows if row["id"] not in removed]
    for row in rows:
        row["metadata"]["draft"]["looked_at"] = row["id"] in looked_at
    files.write_document(folder, document)
    files.write_rows(folder / files.SAMPLES, rows)
    if json:
        print_document({"schema_version": 1, "checked_by_people": checked, "removed": document["removed"]})
    elif checked is not None:
        low, high = checked["interval"]
        share = f"between {low:.0%} and {high:.0%} of such questions"
        dropped = f"; {counted(len(removed), 'question')} removed" if drop_bad else ""
        print_lines(f"\n{checked['bad']} of {checked['n']} bad: {share}{dropped}")


def _ask(
    folder: Path, document: Mapping[str, Any], rows: Sequence[dict[str, Any]],
    *, who: str, budget: int | None, seed: int, silent: bool,
) -> None:  # fmt: skip
    """Show the questions one by one and save each answer."""

    def show(text: str) -> None:
        if not silent:
            print_lines(text)

    drawn = random.Random(seed).sample(rows, min(budget or len(rows), len(rows)))  # noqa: S311 - a draw that can be repeated
    answered = {row["item"] for row in files.read_labels(folder, rows) if row["who"] == who}
    todo = [row for row in drawn if row["id"] not in answered]
    done = len(drawn) - len(todo)
    show(f"{len(drawn)} to look at (random, seed {seed}), {done} done; labels of {clean(who)}")
    constant = {"kind": "draft", "scale": "draft", "who": who, "queue": "random", "blind": True}
    constant |= {"design": {"seed": seed, "n": len(drawn), "of": len(rows)}}
    with keyboard() as keys:
        for number, row in enumerate(todo, done + 1):
            show("\n".join(["", f"─── {number} of {len(drawn)} ───", *_shown(row, document), _PROMPT]))
            key = next((key for key in keys if key in {*KEYS, "s", "q"}), "q")
            if key == "q":
                return
            if key != "s":
                own = {"item": row["id"], "sample": row["id"], "query": row["query"], "answer": KEYS[key]}
                earlier = files.read_rows(folder / files.LABELS)
                files.write_rows(folder / files.LABELS, [*earlier, {**constant, **own, "at": now()}])


def _shown(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return the question, its answer and the quotes; for a near-miss, where no answer was found."""
    lines = [f"question  {clean(row['query'])}"]
    if row.get("answerable") is False:
        places = document["searched"].get(row["id"], [])
        docs = ", ".join(dict.fromkeys(clean(str(place["doc"])) for place in places))
        return [*lines, "near-miss: these documents were searched and should not answer it:", f"  {docs}"]
    quotes = [(" ".join(one["quote"].split()), str(one["doc"])) for one in row["evidence"]]
    around = " ".join(row["metadata"]["draft"]["around"].split())
    lines += [f"answer    {clean(row['reference'])}"]
    lines += [f"quote     {clean(quote)}  ({clean(doc)})" for quote, doc in quotes]
    return [*lines, f"around    {clean(around)}"]
