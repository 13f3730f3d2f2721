"""Environments: the images that machines start from."""

from __future__ import annotations

from ._call import OnProgress
from ._client import Client, Result


class Environments(Client):
    """What can be done with environments, and with the host."""

    def doctor(self, *, on_progress: OnProgress | None = None) -> Result:
        """Tell what this host can do, and what mends what it can't."""
        return self._call("doctor", {}, on_progress=on_progress)

    def list_environments(self) -> Result:
        """The catalogue and all that is installed, as `environments`."""
        return self._call("list_environments", {})

    def pull_environment(self, environment: str, *, force: bool = False, on_progress: OnProgress | None = None) -> Result:
        """Install an environment of the catalogue, or an OCI image; force makes it anew."""
        return self._call("pull_environment", {"environment": environment, "force": force}, on_progress=on_progress)

    def inspect_environment(self, environment: str) -> Result:
        """Describe an environment of the catalogue, or one that is installed."""
        return self._call("inspect_environment", {"environment": environment})

    def prune_environments(self, *, all: bool = False) -> Result:
        """Remove what nothing uses any more; with all, also what is installed and not in use."""
        return self._call("prune_environments", {"all": all})
