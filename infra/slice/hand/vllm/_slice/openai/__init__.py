"""The types of the `openai` package that vLLM's wire types are made of, without the client.

The modules below `types` are openai's own. They live here so that importing them does not run `openai/__init__`, and so
that the real package, where it is installed, stays untouched.
"""
