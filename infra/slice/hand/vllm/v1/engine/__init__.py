"""The engine is not part of the slice; the detokenizer's stop string check is."""

# replaces vllm 0.31.0: sha256:e7532e6c9fde4643cf31cd793d4ae4a6d618c71c87208430fb6680105dc1af42
# replaces vllm 0.32.0: sha256:5a525d4fc6e9a802be0d211d98b42cd196ac3bfd91906eb98a9dd47a15ecac22
# replaces vllm 0.33.0: sha256:733a21948cc1b6ff4e00907120febd0e4eac993eab19474b3ac8a801497c4115
