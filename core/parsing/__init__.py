"""Choosing, building and running vLLM's reasoning and tool parsers."""
