"""The HTTP client of LLMJudge: providers, transport, limits, retries, output modes, parsing, prices."""
