"""The one entry to everything."""

from __future__ import annotations

from typing import Any

from ._client import HostPath, host_path
from .environments import Environments
from .files import Files
from .machines import Machines
from .server import Server
from .services import Services
from .shells import Shells
from .snapshots import Snapshots
from .workspaces import Workspaces


class Pyro(Environments, Machines, Workspaces, Files, Snapshots, Services, Shells):
    """Pyro's operations. Each gives the dict that the command of the same name prints with --json: docs/json.md has the fields.

    Any number of threads may use one Pyro. What goes wrong is a PyroError; where a call is interrupted, or a callback raises, the call is cancelled, and
    with it the command that it ran.

    program: the command pyro; by default PYRO_PROGRAM, else pyro in PATH.
    cache_dir, state_dir: where pyro keeps things; by default where the command does.
    """

    def __init__(
        self, *, program: HostPath | None = None, cache_dir: HostPath | None = None, state_dir: HostPath | None = None
    ) -> None:
        folders = {"PYRO_CACHE_DIR": host_path(cache_dir), "PYRO_STATE_DIR": host_path(state_dir)}
        super().__init__(program, {name: folder for name, folder in folders.items() if folder})

    def __enter__(self) -> Pyro:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def create_server(self, profile: str = "workspace-full") -> Server:
        """A server of the Model Context Protocol with the tools of a profile. workspace-core is the one to begin with."""
        return Server(self._program(), self._environment(), profile)
