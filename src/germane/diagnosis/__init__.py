"""Diagnose a stored evaluation from its labels: where documents were lost, and which changes would help."""
