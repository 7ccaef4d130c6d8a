"""The tables of an evaluation as columns: samples, items, judgements, labels, scores; and the folder that holds them.

They join by `item`, and by (sample, system, trial).
"""

from germane.tables.folder import ReportFolder, Tables
from germane.tables.items import ItemRow, ItemTable, item_rows
from germane.tables.judgements import JudgementTable
from germane.tables.labels import Label, LabelBook, LabelTable, label_rows
from germane.tables.part import Part, merge
from germane.tables.scores import ScoreTable

__all__ = [
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
    "item_rows",
    "label_rows",
    "merge",
]
