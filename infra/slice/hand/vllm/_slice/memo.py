"""Remembering what a function returned for the very same objects."""

from functools import wraps

# A process serves one deployment: two configurations and one tokenizer. More than this is tests.
_MOST = 8


def memoized(function):
    """`function`, called once for each combination of argument objects; compares identities, never values.

    The arguments are kept alive with the result, so that an identity cannot come to mean another object.
    """
    kept = {}

    @wraps(function)
    def call(*args):
        key = tuple(map(id, args))
        found = kept.get(key)
        if found is None:
            if len(kept) >= _MOST:
                kept.clear()
            found = kept[key] = (args, function(*args))
        return found[1]

    return call
