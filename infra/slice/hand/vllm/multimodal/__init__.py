"""The slice handles text only."""

# replaces vllm 0.33.0: sha256:60f19ed87c1de749ed6ea05e4fcff4d1cd8dca8c981fc3d63bcc7e399fc4e17f
