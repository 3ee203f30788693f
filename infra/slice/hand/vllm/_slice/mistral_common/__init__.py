"""Tool types and token names of mistral-common, without its tokenizer."""
