"""A child process that runs `pyro rpc`, and the calls to it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ._call import Call, Listeners
from ._program import HINT
from .errors import PyroError

MAX_MESSAGE = 34 << 20  # maximum size of a message, in bytes
WINDOW = 1 << 20  # maximum unacknowledged output of a call, in bytes
CANCEL_TIMEOUT = 10.0  # seconds to wait until a cancelled call ends
CLOSE_TIMEOUT = 10.0  # seconds to wait until the child ends


class Connection:
    """A child process that runs `pyro rpc`.

    The child always ends with this process, because its standard streams are closed then.

    One thread writes to the child, so that a KeyboardInterrupt never leaves half a message. Another
    thread reads from the child, and never waits for other threads.
    """

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        try:
            # A new session, so that Ctrl-C reaches only this process. This process then cancels its
            # calls. Unbuffered, because a fork would inherit the locks of the buffers.
            self._process = subprocess.Popen(
                [program, "rpc"], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env), start_new_session=True
            )
        except OSError as e:
            raise PyroError(f"start {program}: {e.strerror}", kind="unavailable", op="start", subject=program, hint=HINT) from e
        self._program = program
        self._lock = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._ended: PyroError | None = None
        self._broken = ""
        self._ids = itertools.count(1)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=work, name=f"pyro rpc {name}", daemon=True) for name, work in (("writer", self._write), ("reader", self._read))]
        for thread in self._threads:
            thread.start()

    def ended(self) -> bool:
        """Return whether the child has ended, so that it accepts no more calls."""
        return self._ended is not None

    def new_call(self, listeners: Listeners) -> Call:
        return Call(next(self._ids), listeners, self._consumed)

    def begin(self, call: Call, method: str, params: dict[str, Any]) -> bool:
        """Send a call. Return whether it was sent: False if the child has ended."""
        line = _encoded({"jsonrpc": "2.0", "id": call.id, "method": method, "params": params})
        if len(line) > MAX_MESSAGE:
            raise PyroError(f"{method}: the request has {len(line)} bytes, more than {MAX_MESSAGE}", kind="invalid_argument", op=method)
        with self._lock:
            if self._ended:
                return False
            self._calls[call.id] = call
        self._lines.put(line)
        return True

    def cancel(self, call: Call) -> None:
        """Cancel a running call. Wait until it has ended, for at most CANCEL_TIMEOUT."""
        with self._lock:
            if call.id not in self._calls:
                return
        self._notify("cancel", {"id": call.id})
        call.drain(CANCEL_TIMEOUT)

    def close(self) -> None:
        """Cancel the running calls and end the child. close is idempotent."""
        # This does not take the lock, because a finalizer can run while this thread holds it.
        for id in list(self._calls):
            self._notify("cancel", {"id": id})
        self._lines.put(None)
        if threading.current_thread() in self._threads:
            return  # one of these threads called close, and a thread can't wait for itself
        self._reap()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT)

    def forget(self) -> None:
        """Give up the child in a forked process, because it belongs to the parent process."""
        with open(os.devnull, "r+b") as null:
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(null.fileno(), pipe.fileno(), inheritable=False)  # type: ignore[union-attr]
        self._process.returncode = 0  # only the parent process can wait for the child

    def _reap(self) -> int:
        """Wait until the child has ended. Kill it after CLOSE_TIMEOUT. Return its exit code."""
        try:
            return self._process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _consumed(self, id: int, size: int) -> None:
        self._notify("consumed", {"id": id, "bytes": size})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._lines.put(_encoded({"jsonrpc": "2.0", "method": method, "params": params}))

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin
        with contextlib.suppress(OSError):  # the child has ended; the reader thread handles that
            while (line := self._lines.get()) is not None:
                left = memoryview(line)
                while left:
                    left = left[stdin.write(left) :]
        with contextlib.suppress(OSError):
            stdin.close()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout
        try:
            with stdout:
                for line in _lines_of(stdout):
                    self._hear(json.loads(line))
        except Exception:
            self._broken = "it sent an invalid response"
            self._process.kill()
        finally:
            self._lines.put(None)
            self._end(self._reap())

    def _hear(self, message: dict[str, Any]) -> None:
        if "method" in message:
            with self._lock:
                call = self._calls.get(message["params"]["id"])
        else:
            if ("result" in message) == ("error" in message) or not isinstance(message.get("error", {}), dict) or message["id"] is None:
                raise ValueError("not the response to a call")
            with self._lock:
                call = self._calls.pop(message["id"], None)
        if call:
            call.put(message)

    def _end(self, code: int) -> None:
        """Fail the running calls, because the child has ended."""
        reason = self._broken or (f"signal {-code} ended it" if code < 0 else f"it ended with exit code {code}")

        def error() -> PyroError:
            return PyroError(
                f"{self._program} rpc: {reason}", kind="unavailable", op="call pyro", subject=self._program,
                hint=f"{self._program} doctor; the next call starts it again",
            )

        with self._lock:
            self._ended = error()
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call.put(error())


def _lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of an unbuffered stream, without an incomplete last line."""
    parts: list[bytes] = []
    while chunk := stream.read(1 << 16):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for part in others:
            yield b"".join(parts)
            parts = [part]


def _encoded(message: dict[str, Any]) -> bytes:
    try:
        return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except ValueError as e:  # includes UnicodeEncodeError
        reason = "a text is not valid Unicode" if isinstance(e, UnicodeError) else "a number is not finite"
        raise PyroError(f"{message['method']}: {reason}", kind="invalid_argument", op=message["method"]) from None
