"""Ranked lists as arrays: one row per retrieved passage, with one source's label (gold, judge or people)."""
