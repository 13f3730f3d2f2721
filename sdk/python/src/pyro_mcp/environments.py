"""Environments: the images that machines start from."""

from __future__ import annotations

from ._call import OnProgress
from ._client import Client, Result


class Environments(Client):
    """Operations on environments and the host."""

    def doctor(self, *, environment: str | None = None, on_progress: OnProgress | None = None) -> Result:
        """Report the capabilities of this host, and how to fix problems.

        With an environment, also report how fast the environment's next machine will start.
        """
        return self._call("doctor", {"environment": environment}, on_progress=on_progress)

    def host_network_settings(self) -> Result:
        """List the settings that tools of this host need to reach the network."""
        return self._call("host_network_settings", {})

    def prepare_environment(
        self,
        environment: str = "debian:12",
        *,
        network: bool = False,
        force: bool = False,
        isolation: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Build everything that the first start of a machine needs, and test it.

        With force, build it again.
        """
        fields = {"environment": environment, "network": network, "force": force, "isolation": isolation}
        return self._call("prepare_environment", fields, on_progress=on_progress)

    def list_environments(self) -> Result:
        """List the environments of the catalogue and the installed ones, in `environments`."""
        return self._call("list_environments", {})

    def pull_environment(self, environment: str, *, force: bool = False, on_progress: OnProgress | None = None) -> Result:
        """Install an environment of the catalogue or an OCI image. With force, install it again."""
        return self._call("pull_environment", {"environment": environment, "force": force}, on_progress=on_progress)

    def inspect_environment(self, environment: str) -> Result:
        """Describe an environment that is installed or in the catalogue."""
        return self._call("inspect_environment", {"environment": environment})

    def prune_environments(self, *, all: bool = False, dry_run: bool = False) -> Result:
        """Remove unused data. With all, also remove installed environments that no machine uses.

        With dry_run, remove nothing: `removed` lists what would be removed, and `kept` what would
        stay, each with a `reason`.
        """
        return self._call("prune_environments", {"all": all, "dry_run": dry_run})

    def build_environment(
        self,
        name: str,
        context_path: str,
        *,
        dockerfile: str | None = None,
        target: str | None = None,
        build_args: dict[str, str] | None = None,
        secrets: list[dict[str, str]] | None = None,
        no_cache: bool = False,
        vcpu_count: int | None = None,
        mem_mib: int | None = None,
        isolation: str | None = None,
        network: bool = False,
        egress_allow: list[str] | None = None,
        egress_deny: list[str] | None = None,
        host_network_settings: bool = False,
        host_network_credentials: list[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Build an environment from a Dockerfile. Without a network, its steps reach nothing.

        A secret has `name`, and `value` or `file_path`.
        """
        fields = {
            "name": name,
            "context_path": context_path,
            "dockerfile": dockerfile,
            "target": target,
            "build_args": build_args,
            "secrets": secrets,
            "no_cache": no_cache,
            "vcpu_count": vcpu_count,
            "mem_mib": mem_mib,
            "isolation": isolation,
            "network": network,
            "egress_allow": egress_allow,
            "egress_deny": egress_deny,
            "host_network_settings": host_network_settings,
            "host_network_credentials": host_network_credentials,
        }
        return self._call("build_environment", fields, on_progress=on_progress)

    def commit_workspace(
        self, workspace_id: str, name: str, *, omit_workspace: bool = False, on_progress: OnProgress | None = None
    ) -> Result:
        """Make an environment from the files of a workspace."""
        fields = {"workspace_id": workspace_id, "name": name, "omit_workspace": omit_workspace}
        return self._call("commit_workspace", fields, on_progress=on_progress)

    def push_environment(self, environment: str, *, target: str | None = None, on_progress: OnProgress | None = None) -> Result:
        """Write an installed environment to an OCI registry, under its own name or as target."""
        return self._call("push_environment", {"environment": environment, "target": target}, on_progress=on_progress)

    def save_environment(self, environment: str, *, output_path: str, on_progress: OnProgress | None = None) -> Result:
        """Write an installed environment as an OCI layout: a .tar file, or a new folder."""
        fields = {"environment": environment, "output_path": output_path}
        return self._call("save_environment", fields, on_progress=on_progress)

    def load_environment(self, path: str, *, name: str | None = None, on_progress: OnProgress | None = None) -> Result:
        """Install an environment from an OCI layout: a folder or a tar archive."""
        return self._call("load_environment", {"path": path, "name": name}, on_progress=on_progress)
