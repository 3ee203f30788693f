"""Upstream sets torch and CUDA environment variables here. The slice has neither."""

# replaces vllm 0.32.0: sha256:8a22650f862565a9ce2ba4441d39a99afbcecc2b60664be2272dd18e2df1cd1d
# replaces vllm 0.33.0: sha256:1cd097535e9aeedf1393337f6ed8e15db3c733ae24ececa05e6fd29dc4e01a50
