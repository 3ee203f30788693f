"""The ``derender`` command: the service on uvicorn, model bundles, and a built function tried with one event."""
