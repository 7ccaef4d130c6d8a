"""The client of LLMJudge: providers, transport, rate limits, retries, output modes, parsing and prices."""
