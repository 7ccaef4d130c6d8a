"""The report folder: manifest.json and five tables as JSON lines, with one writer at a time."""
