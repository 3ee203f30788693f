"""Upstream's package init imports the HTTP routers. The slice has none."""

# replaces vllm 0.31.0: sha256:bac4ffa8440759d9a244acc25bf28ce6700d7106a2b35eff90c35e70a7519f52
# replaces vllm 0.33.0: sha256:6e3da2dd5e725c91ce4f1353dc12a104afc1ac3159586b48d5899145417eb9c4
