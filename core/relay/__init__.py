"""The full OpenAI endpoints on a token engine: a request rendered, generated and derendered in one call."""
