"""The Lambda entry of the render function: ``handlers.render.handler``."""

from handlers.invocation import lambda_handler
from handlers.render_endpoints import RENDER

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
handler = lambda_handler(RENDER)
