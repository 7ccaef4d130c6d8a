"""The report of an evaluation: its rows, means, gates and formats."""
