"""Causes of the scores of a stored evaluation, by arithmetic on its labels: where documents were lost, what would help."""
