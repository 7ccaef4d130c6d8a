"""Ranked lists as columns: one row per place (passage at a rank of a list), with one source's labels."""
