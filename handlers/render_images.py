"""The Lambda entry of the render function that reads images: ``handlers.render_images.handler``."""

import os

from handlers.blas import use_one_thread
from handlers.slices import VARIABLE, choose

use_one_thread()
choose(os.environ.get(VARIABLE) or None)

# After both: these import vLLM and numpy.
from handlers.image_endpoints import RENDER_IMAGES  # noqa: E402
from handlers.invocation import lambda_handler  # noqa: E402

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
handler = lambda_handler(RENDER_IMAGES)
