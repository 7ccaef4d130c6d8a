"""Providers' batches: many requests sent at once, answered within a day at about half the price."""
