"""The slice handles text only."""
