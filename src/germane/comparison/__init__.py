"""Compare systems over the same cases: differences, their causes, and the decision about a change.

Modules, each on those before it:

- parts: a difference split into retrieval and verdicts; queries that moved;
- regression: gates on the change against a baseline;
- formats: what a comparison says, as text, Markdown, LaTeX, CSV, JSON;
- compare: everything, as one call.
"""
