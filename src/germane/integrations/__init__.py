"""Calls in the shape of other tools - LiveRAG, DeepEval, Ragas, Mastra - answered by germane's own evaluation."""
