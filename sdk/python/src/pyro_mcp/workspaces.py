"""Workspaces: machines that persist, and what runs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._call import OnProgress, OnText
from ._client import Client, HostPath, Result, host_path, program_of


class Workspaces(Client):
    """What can be done with workspaces."""

    def create_workspace(
        self,
        *,
        environment: str,
        vcpu_count: int = 1,
        mem_mib: int = 1024,
        ttl_seconds: int = 600,
        allow_host_compat: bool = False,
        seed_path: HostPath | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        network_policy: str = "off",
        secrets: Sequence[Mapping[str, Any]] | None = None,
        isolation: str | None = None,
        egress_allow: Sequence[str] | None = None,
        egress_deny: Sequence[str] | None = None,
        auto_pause_seconds: int | None = None,
        include_ignored: bool = False,
        disk_mib: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Make a workspace, fill /workspace from a folder or an archive of the host, and start it.

        secrets are {"name": …, "value": …} or {"name": …, "file_path": …} each. Of a folder in a git checkout, what git ignores is left out,
        unless include_ignored. disk_mib is the size of /workspace in MiB, 64 to 16384, and 16384 by default.
        """
        params = {
            "environment": environment, "vcpu_count": vcpu_count, "mem_mib": mem_mib, "ttl_seconds": ttl_seconds, "allow_host_compat": allow_host_compat,
            "seed_path": host_path(seed_path), "name": name, "labels": labels, "network_policy": network_policy, "secrets": _secrets(secrets),
            "isolation": isolation, "egress_allow": egress_allow, "egress_deny": egress_deny,
            "auto_pause_seconds": auto_pause_seconds, "include_ignored": include_ignored, "disk_mib": disk_mib,
        }
        return self._call("create_workspace", params, on_progress=on_progress)

    def list_workspaces(self, *, labels: Mapping[str, str] | None = None, state: str | None = None) -> Result:
        """Workspaces, the last used first, as `workspaces`: those with all of some labels, and in a state."""
        return self._call("list_workspaces", {"labels": labels, "state": state})

    def status_workspace(self, workspace_id: str) -> Result:
        """Tell what a workspace is now."""
        return self._call("status_workspace", {"workspace_id": workspace_id})

    def summarize_workspace(self, workspace_id: str) -> Result:
        """Tell what was done in a workspace since it was created or last reset, and how its files differ from the baseline."""
        return self._call("summarize_workspace", {"workspace_id": workspace_id})

    def update_workspace(
        self,
        workspace_id: str,
        *,
        name: str | None = None,
        clear_name: bool = False,
        labels: Mapping[str, str] | None = None,
        clear_labels: Sequence[str] | None = None,
    ) -> Result:
        """Change the name and the labels of a workspace, and nothing else."""
        params = {"workspace_id": workspace_id, "name": name, "clear_name": clear_name, "labels": labels, "clear_labels": clear_labels}
        return self._call("update_workspace", params)

    def start_workspace(self, workspace_id: str, *, on_progress: OnProgress | None = None) -> Result:
        """Start a stopped workspace, with all that it had."""
        return self._call("start_workspace", {"workspace_id": workspace_id}, on_progress=on_progress)

    def stop_workspace(self, workspace_id: str) -> Result:
        """Stop a workspace. Files, snapshots and history stay."""
        return self._call("stop_workspace", {"workspace_id": workspace_id})

    def pause_workspace(self, workspace_id: str) -> Result:
        """Write down a workspace with all that runs in it, and end its machine. What is done next with it has everything go on."""
        return self._call("pause_workspace", {"workspace_id": workspace_id})

    def resume_workspace(self, workspace_id: str, *, on_progress: OnProgress | None = None) -> Result:
        """Have a workspace go on that is paused."""
        return self._call("resume_workspace", {"workspace_id": workspace_id}, on_progress=on_progress)

    def delete_workspace(self, workspace_id: str) -> Result:
        """Delete a workspace with all that it holds."""
        return self._call("delete_workspace", {"workspace_id": workspace_id})

    def exec_workspace(
        self,
        workspace_id: str,
        *,
        command: str | Sequence[str],
        timeout_seconds: int = 30,
        secret_env: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> Result:
        """Run a command in /workspace and wait for it. command, on_stdout and on_stderr are as for run_in_vm; secret_env is {SECRET: VARIABLE}."""
        params = {
            "workspace_id": workspace_id, **program_of(command), "timeout_seconds": timeout_seconds, "secret_env": secret_env, "env": env, "cwd": cwd,
        }
        return self._call("exec_workspace", params, on_stdout=on_stdout, on_stderr=on_stderr)

    def logs_workspace(self, workspace_id: str) -> Result:
        """The commands that were run since the workspace was created or last reset, with their output."""
        return self._call("logs_workspace", {"workspace_id": workspace_id})

    def network_log_workspace(self, workspace_id: str, *, tail_lines: int = 200, all: bool = False) -> Result:
        """The connections that a workspace made or was refused."""
        return self._call("network_log_workspace", {"workspace_id": workspace_id, "tail_lines": tail_lines, "all": all})


def _secrets(secrets: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    if secrets is None:
        return None
    return [{**s, "file_path": host_path(s["file_path"])} if s.get("file_path") else dict(s) for s in secrets]
