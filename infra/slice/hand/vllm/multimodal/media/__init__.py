"""The slice handles text only."""

# replaces vllm 0.32.0: sha256:cecf1ccf8f9ae6e47a1f83c7fa3394f155579ae134149c87c7a1da72fdeea11c
# replaces vllm 0.33.0: sha256:be64cfc80ad90b98ddf437c9a97c0f1530b25825a779f62940dae1fbc72fa5cb
