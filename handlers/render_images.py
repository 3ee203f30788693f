"""The Lambda entry of the render function that reads images: ``handlers.render_images.handler``."""

from handlers.image_endpoints import RENDER_IMAGES
from handlers.invocation import lambda_handler

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
handler = lambda_handler(RENDER_IMAGES)
