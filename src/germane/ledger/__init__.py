"""The ledger: judgements in an SQL table, one row per answer, found by key."""
