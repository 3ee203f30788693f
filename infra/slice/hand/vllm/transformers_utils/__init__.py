"""Upstream's package init patches model hubs. The slice talks to none."""
