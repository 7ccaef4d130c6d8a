"""The report folder: manifest.json and five tables as JSON lines, one writer at a time, rows that are read one by one."""
