"""The Lambda entry of the render function: ``handlers.render.handler``."""

from mangum import Mangum

from handlers.app import create_app
from handlers.settings import settings_from_environ

# Loaded at import, which is Lambda's init phase and what SnapStart keeps; a request finds it ready.
app = create_app(settings_from_environ(), functions=("render",))
handler = Mangum(app, lifespan="off")
