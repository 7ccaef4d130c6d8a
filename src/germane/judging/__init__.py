"""Judging: ask judges the questions about samples, and store their answers as judgements."""
