"""Ranked lists as arrays: one row per retrieved passage, with its label from gold, a judge or people."""
