"""The tables of an evaluation as columns: samples, judged items, judgements, labels and scores.

Tables are joined on `item`, and on (sample, system, trial).
"""
