"""Upstream's package init patches model hubs. The slice talks to none."""

# replaces vllm 0.33.0: sha256:053753ff29b57ed455860c4152474942a98ed8b88a0d7d8c6591041bc53fd391
