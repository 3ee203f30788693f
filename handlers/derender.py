"""The Lambda entry of the derender function: ``handlers.derender.handler``."""

from handlers.derender_endpoints import DERENDER
from handlers.invocation import lambda_handler

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
handler = lambda_handler(DERENDER)
