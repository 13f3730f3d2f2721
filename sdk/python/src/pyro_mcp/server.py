"""A server of the Model Context Protocol, for agents."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from ._program import find_program
from .errors import PyroError

PROFILES = ("vm-run", "workspace-core", "workspace-full")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Exit codes of pyro by kind of error.
_KINDS = {
    2: "invalid_argument", 3: "not_found", 4: "already_exists", 5: "failed_precondition", 6: "permission_denied", 7: "resource_exhausted",
    8: "unsupported", 9: "unavailable", 10: "corrupt", 124: "timeout", 130: "canceled",
}

# Executes a program in the same process. The program ends when the process that started it ends.
_TIED = """
import ctypes, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class Server:
    """Runs `pyro mcp serve`, which serves the operations of pyro to agents."""

    def __init__(self, program: str, env: Mapping[str, str], profile: str) -> None:
        if profile not in PROFILES:
            raise PyroError(f"profile is {profile!r}: it must be one of {', '.join(PROFILES)}", kind="invalid_argument")
        self._program = program
        self._env = dict(env)
        self.profile = profile

    def run(
        self,
        transport: str = "stdio",
        *,
        listen: str | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Serve until the client disconnects or a signal arrives.

        transport is "stdio" for one client on the standard streams of this process, or "http" for
        all clients that have the token. listen is the loopback ADDRESS:PORT of the HTTP server, and
        the URL path is /mcp. In the main thread, run forwards signals to the server until the server
        has ended.
        """
        args = ["mcp", "serve", "--profile", self.profile, "--transport", transport]
        if listen is not None:
            args += ["--listen", listen]
        if token_file is not None:
            args += ["--token-file", os.path.abspath(os.fspath(token_file))]
        env = self._env if token is None else {**self._env, "PYRO_MCP_TOKEN": token}
        tied = [sys.executable or "python3", "-I", "-S", "-c", _TIED, str(os.getpid()), self._program]
        received: list[int] = []
        with _passing(received) as pass_to:
            child = subprocess.Popen([*tied, *args], env=env)
            pass_to(child)
            try:
                code = child.wait()
            except BaseException:
                child.terminate()
                child.wait()
                raise
        if received:
            os.kill(os.getpid(), received[0])
        elif code != 0:
            raise PyroError(
                f"pyro mcp serve ended with exit code {code}", kind=_KINDS.get(code, "internal"), op="serve agents",
                hint="read the reason on the standard error",
            )


@contextlib.contextmanager
def _passing(received: list[int]) -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Record received signals and forward them to a child. The yielded function sets the child."""
    children: list[subprocess.Popen[bytes]] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        received.append(number)
        for child in children:
            child.send_signal(number)

    def pass_to(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in received:
            child.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield pass_to  # only the main thread receives signals
        return
    before = {number: signal.signal(number, on_signal) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield pass_to
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def create_server(profile: str = "workspace-full") -> Server:
    """Return a Model Context Protocol server with the tools of a profile.

    workspace-core is a good first profile.
    """
    return Server(find_program(), os.environ, profile)
