"""Builds the vLLM slice: a small, pure-Python, torch-free wheel cut from the published vLLM wheel.

Nothing here runs in production; only the wheel that it writes does.
"""
