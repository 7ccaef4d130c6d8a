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


def label(
    folder: Path, *, who: str, budget: int | None, seed: int, json: bool, drop_bad: bool = False, **_: Any
) -> None:
    """Ask a person about drafted questions until the budget is used up; every answer is saved at once."""
    document = files.read_document(folder)
    if document is None:
        raise InputError(f"{folder} holds no drafted set", fix="name the folder of germane draft -o")
    rows = files.read_rows(folder / files.SAMPLES)
    labels = files.read_labels(folder, rows, document.get("removed", ()))
    _ask(folder, document, rows, labels, who=who, budget=budget, seed=seed, silent=json)
    checked = document["checked_by_people"] = files.checked_by_people(labels)
    bad = {row["item"] for row in labels if row["answer"] not in ("fine", "unsure")} if drop_bad else set()
    document["removed"] = sorted({*document.get("removed", ()), *bad})
    looked_at = {row["item"] for row in labels}
    rows = [row for row in rows if row["id"] not in bad]
    for row in rows:
        row["metadata"]["draft"]["looked_at"] = row["id"] in looked_at
    files.write_document(folder, document)
    files.write_rows(folder / files.SAMPLES, rows)
    if json:
        print_document({"schema_version": 1, "checked_by_people": checked, "removed": document["removed"]})
    elif checked is not None:
        low, high = checked["interval"]
        print_lines(
            f"\n{checked['bad']} of {checked['n']} bad: between {low:.0%} and {high:.0%} of such questions"
        )
        if drop_bad:
            removed = counted(len(document["removed"]), "question")
            print_lines(f"{removed} removed; the interval is that of the set before")


def _ask(
    folder: Path, document: Mapping[str, Any], rows: Sequence[dict[str, Any]], labels: list[dict[str, Any]],
    *, who: str, budget: int | None, seed: int, silent: bool,
) -> None:  # fmt: skip
    """Show the questions one by one and save each answer."""

    def show(text: str) -> None:
        if not silent:
            print_lines(text)

    drawn = random.Random(seed).sample(rows, min(budget or len(rows), len(rows)))  # noqa: S311 - a draw that can be repeated
    answered = {row["item"] for row in labels if row["who"] == who}
    todo = [row for row in drawn if row["id"] not in answered]
    done = len(drawn) - len(todo)
    show(f"{len(drawn)} to look at (random, seed {seed}), {done} done; labels of {clean(who)}")
    design = {"seed": seed, "n": len(drawn), "of": len(rows)}
    with keyboard() as keys:
        for number, row in enumerate(todo, done + 1):
            show("\n".join(["", f"─── {number} of {len(drawn)} ───", *_shown(row, document)]))
            key = ""
            while key not in KEYS and key not in ("s", "q"):
                show(", ".join(f"{key} {name}" for key, name in KEYS.items()) + ", s skip, q quit")
                key = next(keys, "q")
            if key == "q":
                return
            if key != "s":
                labels.append(
                    {"item": row["id"], "kind": "draft", "answer": KEYS[key], "scale": "draft", "who": who, "at": now(), "queue": "random",
                     "design": design, "blind": True, "sample": row["id"], "query": row["query"]}
                )  # fmt: skip
                files.write_rows(folder / files.LABELS, [*files.read_rows(folder / files.LABELS), labels[-1]])


def _shown(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return the question, its answer and the quotes; for a near-miss, where no answer was found."""
    lines = [f"question  {clean(row['query'])}"]
    if row.get("answerable") is False:
        found = document.get("searched", {}).get(row["id"], [])
        docs = ", ".join(dict.fromkeys(clean(str(place["doc"])) for place in found))
        return [*lines, "near-miss: these documents were searched and should not answer it:", f"  {docs}"]
    quotes = [(" ".join(one["quote"].split()), str(one["doc"])) for one in row["evidence"]]
    around = " ".join((row["metadata"]["draft"].get("around") or "").split())
    lines += [f"answer    {clean(row['reference'])}"]
    lines += [f"quote     {clean(quote)}  ({clean(doc)})" for quote, doc in quotes]
    return [*lines, f"around    {clean(around)}"] if around else lines
