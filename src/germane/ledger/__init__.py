"""The ledger: a table of judgements in an SQL database, with one row per answer, found by key."""
