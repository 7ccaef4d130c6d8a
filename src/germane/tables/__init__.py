"""The tables of an evaluation as columns: samples, items, judgements, labels, scores; and the folder that holds them.

They join by `item`, and by (sample, system, trial).
"""

from germane.tables.folder import ReportFolder, Tables
from germane.tables.items import AskedItem, ItemTable, add_items
from germane.tables.judgements import JudgementTable
from germane.tables.labels import Label, LabelBook, LabelTable, add_labels
from germane.tables.part import Part, merge
from germane.tables.scores import ScoreTable
from germane.types import ItemRow

__all__ = [
    "AskedItem",
    "ItemRow",
    "ItemTable",
    "JudgementTable",
    "Label",
    "LabelBook",
    "LabelTable",
    "Part",
    "ReportFolder",
    "ScoreTable",
    "Tables",
    "add_items",
    "add_labels",
    "merge",
]
