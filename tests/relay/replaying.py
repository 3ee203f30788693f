"""An engine that plays a recorded stream back, whatever it is asked: the chunks of the golden corpus on the wire."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

Json = Any


class ReplayingEngine:
    """`chunks` is what the next request is answered with, `asked` what the last one was."""

    def __init__(self) -> None:
        self.chunks: list[Json] = []
        self.asked: Json = None
        self.app = FastAPI()
        self.app.add_api_route("/inference/v1/generate", self._generate, methods=["POST"], response_model=None)
        self.app.add_api_route("/inference/v1/abort_requests", self._abort, methods=["POST"], response_model=None)

    async def _generate(self, request: Request) -> Response:
        self.asked = await request.json()
        if not self.asked["stream"]:
            return Response(json.dumps(self._whole()), media_type="application/json")
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in self.chunks]
        return Response("".join(events) + "data: [DONE]\n\n", media_type="text/event-stream")

    def _whole(self) -> Json:
        """The chunks of one choice as an answer in one piece."""
        parts = [choice for chunk in self.chunks for choice in chunk["choices"]]
        ids = [token_id for part in parts for token_id in part["token_ids"]]
        usage = next((chunk["usage"] for chunk in self.chunks if "usage" in chunk), None)
        return {**self.chunks[0], "choices": [{**parts[-1], "token_ids": ids}], "usage": usage}

    async def _abort(self) -> Response:
        return Response()
