"""Statistics on arrays: intervals, paired comparison, power, agreement and correction with labels.

All functions are pure functions of numpy arrays: they read no file, table or judge. Those that need
randomness take a seed.
"""
