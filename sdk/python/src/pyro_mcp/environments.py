"""Environments: the images that machines start from."""

from __future__ import annotations

from ._call import OnProgress
from ._client import Client, Result


class Environments(Client):
    """What can be done with environments, and with the host."""

    def doctor(self, *, environment: str | None = None, on_progress: OnProgress | None = None) -> Result:
        """Tell what this host can do, and what mends what it can't; of an environment, how fast its next machine will start."""
        return self._call("doctor", {"environment": environment}, on_progress=on_progress)

    def prepare_environment(
        self,
        environment: str = "debian:12",
        *,
        network: bool = False,
        force: bool = False,
        isolation: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Make ready all that the first start of a machine would make, and prove it; force makes it again."""
        fields = {"environment": environment, "network": network, "force": force, "isolation": isolation}
        return self._call("prepare_environment", fields, on_progress=on_progress)

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
