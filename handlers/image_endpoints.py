"""The render function's endpoints where images are read: the same routes, in every dialect that may hold some."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from core.dialects import DIALECTS
from core.dialects.dialect import Dialect
from core.images.reader import take_payload
from core.model import Model
from core.protocol.body import decode_request
from core.render.media import Files, FilesWanted, ImageHandling
from handlers.audit import findings_of
from handlers.image_response import accepts_gzip, image_response
from handlers.images import fetcher_of, images_of
from handlers.media_fetch import MediaFetcher, unprocessable
from handlers.metrics import Work, count
from handlers.render_endpoints import RENDER, REQUEST_ID
from handlers.routing import Endpoint, Router
from handlers.settings import Settings

# Compressed text of features is never smaller than a quarter of it: bytes that look random take three of four.
_BEST_RATIO = 4
# Seconds beyond the fetcher's own time-out.
_GRACE = 1.0


def _endpoint(dialect: Dialect) -> Endpoint:
    async def render(model: Model, body: bytes, request: Request) -> Response:
        settings: Settings = request.app.state.settings
        limit, gzip = settings.max_response_bytes, accepts_gzip(request)
        asked, payload = take_payload(decode_request(body), settings.content_parts)

        def answer(files: Files) -> Response:
            handling = ImageHandling(files, payload, limit * _BEST_RATIO if limit and gzip else limit)
            written = dialect.rendering().render(model, asked, request.headers.get(REQUEST_ID), handling)
            prompts = written if isinstance(written, list) else [written]
            findings_of(request, model, [kind for prompt in prompts for kind in getattr(prompt, "findings", ())])
            count(request, Work(prompt_tokens=sum(len(prompt["token_ids"]) for prompt in prompts)))
            return image_response(written, gzip, limit)

        if b"image" not in body:
            return answer({})
        # Pixels take long enough to keep other requests waiting.
        try:
            return await asyncio.to_thread(answer, {})
        except FilesWanted as wanted:
            files = await _fetched(fetcher_of(settings), wanted.urls)
        return await asyncio.to_thread(answer, files)

    return render


async def _fetched(fetcher: MediaFetcher, urls: Sequence[str]) -> Files:
    # The fetcher keeps its time by itself, apart from the system's resolver, which knows none.
    try:
        return await asyncio.wait_for(asyncio.to_thread(fetcher.fetch, urls), fetcher.timeout + _GRACE)
    except TimeoutError:
        raise unprocessable(f"no answer within {fetcher.timeout:g} seconds") from None


_ENDPOINTS = {f"{dialect.path}/render": _endpoint(dialect) for dialect in DIALECTS}

RENDER_IMAGES = Router(
    routes=tuple(replace(route, endpoint=_ENDPOINTS.get(route.path, route.endpoint)) for route in RENDER.routes),
    encodes=True,
    images=images_of,
)
