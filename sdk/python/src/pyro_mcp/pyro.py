"""The main class of the package."""

from __future__ import annotations

from typing import Any

from ._client import HostPath, host_path
from .commands import Commands
from .environments import Environments
from .files import Files
from .machines import Machines
from .server import Server
from .services import Services
from .shells import Shells
from .snapshots import Snapshots
from .workspaces import Workspaces


class Pyro(Environments, Machines, Workspaces, Files, Snapshots, Commands, Services, Shells):
    """The operations of pyro.

    Each operation returns the dict that the corresponding command prints with --json. docs/json.md
    describes the fields. An operation that fails raises PyroError. Any number of threads can share
    a Pyro. If a call is interrupted or a callback raises an exception, the call is cancelled and
    its command ends.

    program: the path of pyro; by default PYRO_PROGRAM, else pyro in PATH.
    cache_dir, state_dir: pyro's folders; by default the same folders as the command uses.
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
        """Return a Model Context Protocol server with the tools of a profile.

        workspace-core is a good first profile.
        """
        return Server(self._program(), self._environment(), profile)
