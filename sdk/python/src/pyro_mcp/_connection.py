"""A child `pyro rpc`, and the calls that are under way in it."""

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

MAX_MESSAGE = 34 << 20  # bytes that pyro takes for one message
WINDOW = 1 << 20  # bytes of a call's output that may be on their way at once
CANCEL_PATIENCE = 10.0  # seconds that a cancelled call is waited for
CLOSE_PATIENCE = 10.0  # seconds that the child has to end in


class Connection:
    """One child. It ends when this process does, however that ends: it sees the end of its input.

    A thread of its own writes to it, so that a KeyboardInterrupt never leaves half a message; another reads from it, and never waits for anybody else.
    """

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        try:
            # A session of its own: Ctrl-C is for this process, which cancels its calls.
            # Without buffers, which have locks that a fork of this process would inherit.
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
        """Whether no more calls can be made."""
        return self._ended is not None

    def new_call(self, listeners: Listeners) -> Call:
        return Call(next(self._ids), listeners, self._consumed)

    def begin(self, call: Call, method: str, params: dict[str, Any]) -> bool:
        """Send a call; False where the child has ended before."""
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
        """End a call that is under way, and wait for a while until it has ended."""
        with self._lock:
            if call.id not in self._calls:
                return
        self._notify("cancel", {"id": call.id})
        call.drain(CANCEL_PATIENCE)

    def close(self) -> None:
        """End the child, which cancels what is under way. Idempotent."""
        self._lines.put(None)
        if threading.current_thread() in self._threads:
            return  # it would wait for itself
        self._reap()
        for thread in self._threads:
            thread.join(CLOSE_PATIENCE)

    def forget(self) -> None:
        """Let go of the child in a process that is a fork of the one that it belongs to."""
        with open(os.devnull, "r+b") as null:
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(null.fileno(), pipe.fileno(), inheritable=False)  # type: ignore[union-attr]
        self._process.returncode = 0  # it is not ours to wait for

    def _reap(self) -> int:
        """Wait for the end of the child, and see to it. Its exit code."""
        try:
            return self._process.wait(CLOSE_PATIENCE)
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
        with contextlib.suppress(OSError):  # the child has gone: the reader sees that too
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
            self._broken = "what it said is no answer"
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
                raise ValueError("no answer to a call")
            with self._lock:
                call = self._calls.pop(message["id"], None)
        if call:
            call.put(message)

    def _end(self, code: int) -> None:
        """Fail the calls that are under way: the child has ended."""
        reason = self._broken or (f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}")

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
    """The lines of a stream without a buffer. What has no end is no line."""
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
    except ValueError as e:  # UnicodeEncodeError is one
        reason = "a text is not UTF-8" if isinstance(e, UnicodeError) else "a number is not finite"
        raise PyroError(f"{message['method']}: {reason}", kind="invalid_argument", op=message["method"]) from None
