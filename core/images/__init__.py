"""Images of a request into what an engine takes: tokens, hashes and tensors, without torch.

Nothing here is imported by a deployment that takes text only: the packages
that it needs (Pillow, numpy, blake3) are not there.
"""
