"""The durable store of judgements: an SQLite table with one row per answer, by key."""
