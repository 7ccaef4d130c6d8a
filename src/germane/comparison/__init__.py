"""Systems against each other over the same cases: differences, what they are made of, and whether a change is accepted.

Modules, each on those before it:

- result: what a comparison says, as plain values;
- pairing: the same cases of two systems, and their paired differences;
- parts: a difference split into retrieval and verdicts; queries that moved;
- regression: gates on the change against a baseline;
- documents: reports by path;
- formats: text, Markdown, LaTeX, CSV, JSON;
- compare: everything, as one call.
"""
