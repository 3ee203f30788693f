"""The scripted token engine: vLLM's `/inference/v1/generate` on the wire, no model and no GPU.

It must never import the service: an engine that shares its code would share its mistakes.
"""
