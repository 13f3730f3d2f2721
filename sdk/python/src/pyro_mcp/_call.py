"""One call under way, seen from the thread that made it."""

from __future__ import annotations

import base64
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import PyroError

OnText = Callable[[str], object]
OnProgress = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Listeners:
    """Whom a call tells what comes before its result."""

    on_stdout: OnText | None = None
    on_stderr: OnText | None = None
    on_progress: OnProgress | None = None

    def any(self) -> bool:
        return any((self.on_stdout, self.on_stderr, self.on_progress))


class Call:
    """What is heard of a call. The reader thread puts it here, and never waits; the caller's thread takes it, and runs the callbacks."""

    def __init__(self, id: int, listeners: Listeners, consumed: Callable[[int, int], None]) -> None:
        self.id = id
        self._listeners = listeners
        self._consumed = consumed
        self._heard: queue.SimpleQueue[dict[str, Any] | PyroError] = queue.SimpleQueue()

    def put(self, message: dict[str, Any] | PyroError) -> None:
        self._heard.put(message)

    def result(self) -> Any:
        """Wait for the result. What is told meanwhile is handed on."""
        while True:
            message = self._next()
            if isinstance(message, PyroError):
                raise message
            if "method" not in message:
                if "error" in message:
                    raise PyroError.of(message["error"])
                return message["result"]
            self._tell(message["method"], message["params"])

    def _next(self) -> dict[str, Any] | PyroError:
        # Not for ever at once: a signal that comes just before the wait begins is dealt with only after it.
        while True:
            try:
                return self._heard.get(timeout=0.5)
            except queue.Empty:
                pass

    def drain(self, patience: float) -> None:
        """Wait until the call has ended, and drop all that is heard of it."""
        until = time.monotonic() + patience
        try:
            while True:
                message = self._heard.get(timeout=max(0.0, until - time.monotonic()))
                if isinstance(message, PyroError) or "method" not in message:
                    return
        except queue.Empty:
            return

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method == "progress" and self._listeners.on_progress:
            self._listeners.on_progress({name: value for name, value in params.items() if name != "id"})
        elif method == "output":
            text, size = _decoded(params)
            listener = self._listeners.on_stdout if params["stream"] == "stdout" else self._listeners.on_stderr
            if listener:
                listener(text)
            self._consumed(self.id, size)


def _decoded(params: dict[str, Any]) -> tuple[str, int]:
    """The text of output, and how many bytes it was."""
    if params["encoding"] == "base64":
        data = base64.b64decode(params["data"])
        return data.decode("utf-8", "replace"), len(data)
    return params["data"], len(params["data"].encode())
