"""Retrieval evaluation for RAG: a verdict is a label with provenance."""

__version__ = "0.1.0"
