"""What the engine refuses, in vLLM's error shape."""


class EngineError(Exception):
    """An answer in vLLM's error shape."""

    def __init__(
        self, message: str, param: str | None = None, status: int = 400, kind: str = "BadRequestError"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
