"""Where vLLM looks for the chat template compiler."""
