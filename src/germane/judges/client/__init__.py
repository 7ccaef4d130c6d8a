"""The HTTP client under the model judge: providers, transport, limits, retries, output modes, parsing, prices."""
