"""The tables of an evaluation as columns: samples, items, judgements, labels and scores.

They join by `item`, and by (sample, system, trial).
"""
