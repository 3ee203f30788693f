"""From an OpenAI request to the request for a token engine: what ``/render`` and ``/tokenize`` answer."""
