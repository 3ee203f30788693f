"""The Lambda entry of the render function: ``handlers.render.handler``."""

import os

from handlers.slices import VARIABLE, choose

choose(os.environ.get(VARIABLE) or None)

# After the choice: these import vLLM.
from handlers.invocation import lambda_handler  # noqa: E402
from handlers.render_endpoints import RENDER  # noqa: E402

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
handler = lambda_handler(RENDER)
