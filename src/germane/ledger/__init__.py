"""The durable store of judgements: a table in an SQLite file, one row per answer, under the judgement's key."""
