"""The base class of all operations."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ._call import Listeners, OnProgress, OnText
from ._connection import WINDOW, Connection
from ._program import find_program
from .errors import PyroError

HostPath = str | os.PathLike[str]
Result = dict[str, Any]


class Client:
    """Calls pyro.

    The first call starts a child process. If the child dies, the next call starts another one.
    """

    def __init__(self, program: HostPath | None, env: Mapping[str, str]) -> None:
        self._given = program
        self._added = dict(env)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._closed = False
        _clients.add(self)

    def close(self) -> None:
        """Cancel running calls and end the child. Workspaces keep running. close is idempotent."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if self._finalizer:
                self._finalizer.detach()
        if connection:
            connection.close()

    def _program(self) -> str:
        return find_program(self._given)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._added}

    def _connected(self) -> Connection:
        with self._lock:
            if self._closed:
                raise PyroError("this Pyro is closed", kind="failed_precondition", hint="create another one: Pyro()")
            if self._connection is None or self._connection.ended():
                if self._finalizer:
                    self._finalizer.detach()
                self._connection = Connection(self._program(), self._environment())
                self._finalizer = weakref.finalize(self, self._connection.close)
            return self._connection

    def _call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Call a method of `pyro rpc`. Parameters that are None are omitted."""
        listeners = Listeners(on_stdout, on_stderr, on_progress)
        sent = {name: value for name, value in params.items() if value is not None}
        if listeners.any():
            sent |= {"stream": True, "window": WINDOW}
        while True:
            connection = self._connected()
            call = connection.new_call(listeners)
            try:
                if connection.begin(call, method, sent):
                    return call.result()
            except BaseException:  # KeyboardInterrupt, or an exception from a callback
                connection.cancel(call)
                raise

    def _forked(self) -> None:
        """Reset the client in a forked process: the child and the lock belong to the parent."""
        connection, self._connection = self._connection, None
        self._lock = threading.Lock()
        if self._finalizer:
            self._finalizer.detach()
            self._finalizer = None
        if connection:
            connection.forget()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _forked() -> None:
    for client in list(_clients):
        client._forked()


os.register_at_fork(after_in_child=_forked)


def host_path(path: HostPath | None) -> str | None:
    """Make a path on the host absolute, because the child can have another working directory."""
    return os.path.abspath(os.fspath(path)) if path else None


def program_of(command: str | Sequence[str]) -> dict[str, Any]:
    """Return the parameters that describe a command.

    A string is a command for /bin/sh. A list is a program with its arguments.
    """
    return {"command": command} if isinstance(command, str) else {"argv": list(command)}
