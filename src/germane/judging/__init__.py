"""Judging: questions about samples in, judgements out."""
