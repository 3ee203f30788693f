"""Upstream's package init imports the HTTP routers. The slice has none."""
