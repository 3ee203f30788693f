"""What is the slice's and not vLLM's: lazy loading, refusals, and the third-party names that vLLM mentions."""
