"""Compare systems on the same cases: differences, their causes, and decisions about a change.

The modules, each of which uses only those before it:

- mixed: a difference split into retrieval and verdicts;
- regression: gates on the change against a baseline;
- formats: a comparison as text, Markdown, LaTeX, CSV and JSON;
- compare: the whole comparison as one call.
"""
