"""Measurements, each with the question that it answers as its first line.

Each measures a thing and its baseline in one run, and reports the ratio. ``harness`` is what they share. Never run as
tests.
"""
