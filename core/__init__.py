"""Tokens, text, parsers and wire types of the render and derender endpoints.

Nothing below this package may know of HTTP, Lambda or the environment: every
function takes a loaded :class:`core.model.Model` and plain data.
"""
