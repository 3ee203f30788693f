"""Wire types: what clients and engines send, and the shapes of what they get back."""
