"""The tables of an evaluation as columns: samples, items, judgements, labels, scores; and the folder that holds them.

They join by `item`, and by (sample, system, trial).
"""
