"""One choice of an answer: an engine's tokens in, what they say out, in pieces or in all.

A choice's stream is used by derender (which carries it between calls,
``core.state``) and by the relay (which keeps it for the whole stream) alike.
Nothing here knows how an answer is written on the wire: a writer of one
dialect turns a :class:`~core.choice.output.ChoiceOutput` into that.
"""
