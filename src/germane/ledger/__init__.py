"""The durable store of judgements: one row per answer, in a table of an SQLite file, under the judgement's key."""
