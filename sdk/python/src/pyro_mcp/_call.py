"""A running call."""

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
    """Callbacks for the events of a call that arrive before its result."""

    on_stdout: OnText | None = None
    on_stderr: OnText | None = None
    on_progress: OnProgress | None = None

    def any(self) -> bool:
        return any((self.on_stdout, self.on_stderr, self.on_progress))


class Call:
    """The events of a call.

    The reader thread adds events without blocking. The calling thread gets them and runs the
    callbacks.
    """

    def __init__(self, id: int, listeners: Listeners, consumed: Callable[[int, int], None]) -> None:
        self.id = id
        self._listeners = listeners
        self._consumed = consumed
        self._heard: queue.SimpleQueue[dict[str, Any] | PyroError] = queue.SimpleQueue()

    def put(self, message: dict[str, Any] | PyroError) -> None:
        self._heard.put(message)

    def result(self) -> Any:
        """Wait for the result, and run the callbacks in the meantime."""
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
        # If a signal arrives just before a wait, Python handles it only after the wait. So the wait
        # must have a timeout.
        while True:
            try:
                return self._heard.get(timeout=0.5)
            except queue.Empty:
                pass

    def drain(self, patience: float) -> None:
        """Discard events until the call has ended, for at most patience seconds."""
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
    """Decode output. Return the text and the number of bytes."""
    if params["encoding"] == "base64":
        data = base64.b64decode(params["data"])
        return data.decode("utf-8", "replace"), len(data)
    return params["data"], len(params["data"].encode())
