"""Upstream sets torch and CUDA environment variables here. The slice has neither."""
