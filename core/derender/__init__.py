"""From an engine's token ids to OpenAI responses, whole or chunk by chunk."""
