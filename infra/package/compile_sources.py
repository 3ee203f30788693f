"""Compiles Python sources to bytecode. Run by the target's own interpreter, with nothing but the standard library.

    python3.13 -P -S compile_sources.py < jobs.json

``jobs`` is a list of [source file, bytecode file, the file's name at run time].
The bytecode is never checked against its source at import: the package is
read-only, and the check costs a look at every file.
"""

import json
import py_compile
import sys

for source, target, name in json.load(sys.stdin):
    py_compile.compile(
        source, target, name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
