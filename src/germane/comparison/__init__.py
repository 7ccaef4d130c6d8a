"""Compare systems on the same cases: differences, their causes, and decisions about a change."""
