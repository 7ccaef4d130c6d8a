"""Samples in, judgements out: who says what about which part."""
