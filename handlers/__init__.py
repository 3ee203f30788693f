"""The HTTP and Lambda side: settings, the FastAPI app, one entry module a function. Knows nothing of tokens."""
