"""Packaging: one zip a Lambda function, cross-built, the same bytes from the same sources."""
