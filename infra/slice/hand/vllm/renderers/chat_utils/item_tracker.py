"""Text and images: what keeps the items of other kinds refuses them."""

from vllm._slice.item_tracker import AsyncMultiModalItemTracker, BaseMultiModalItemTracker, MultiModalItemTracker

__all__ = ["AsyncMultiModalItemTracker", "BaseMultiModalItemTracker", "MultiModalItemTracker"]

# replaces vllm 0.33.0: sha256:46c720618f6b6679f0d387330e19d17ca6a21ce974942b5f24bc4ad04521d8d0
