"""Benchmarks: each measures a thing and its baseline in one run, and reports the ratio. Never run as tests."""
