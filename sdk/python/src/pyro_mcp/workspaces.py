"""Workspaces: persistent machines, and the programs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._call import OnProgress, OnText
from ._client import Client, HostPath, Result, host_path, program_of


class Workspaces(Client):
    """Operations on workspaces."""

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
        host_network_settings: bool | None = None,
        host_network_credentials: Sequence[str] | None = None,
        auto_pause_seconds: int | None = None,
        include_ignored: bool = False,
        disk_mib: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Create and start a workspace.

        seed_path is a folder or an archive on the host, and its content is copied to /workspace. If a
        folder is in a git checkout, files that git ignores are omitted, unless include_ignored is
        set. Each secret is {"name": …, "value": …} or {"name": …, "file_path": …}. disk_mib is the size
        of /workspace in MiB, 64 to 16384; the default is 16384.
        """
        params = {
            "environment": environment, "vcpu_count": vcpu_count, "mem_mib": mem_mib, "ttl_seconds": ttl_seconds, "allow_host_compat": allow_host_compat,
            "seed_path": host_path(seed_path), "name": name, "labels": labels, "network_policy": network_policy, "secrets": _secrets(secrets),
            "isolation": isolation, "egress_allow": egress_allow, "egress_deny": egress_deny,
            "host_network_settings": host_network_settings, "host_network_credentials": host_network_credentials,
            "auto_pause_seconds": auto_pause_seconds, "include_ignored": include_ignored, "disk_mib": disk_mib,
        }
        return self._call("create_workspace", params, on_progress=on_progress)

    def list_workspaces(self, *, labels: Mapping[str, str] | None = None, state: str | None = None) -> Result:
        """List workspaces in `workspaces`. The most recently used workspace comes first.

        With labels or state, list only the workspaces that have them.
        """
        return self._call("list_workspaces", {"labels": labels, "state": state})

    def status_workspace(self, workspace_id: str) -> Result:
        """Return the state of a workspace."""
        return self._call("status_workspace", {"workspace_id": workspace_id})

    def stats_workspaces(self, workspace_ids: Sequence[str] | None = None) -> Result:
        """Measure the resources that workspaces use. Without workspace_ids, measure all workspaces.

        The result has `workspaces`. `machine` is None for a workspace that does not run.
        """
        return self._call("stats_workspaces", {"workspace_ids": workspace_ids})

    def summarize_workspace(self, workspace_id: str) -> Result:
        """Summarize the work in a workspace since it was created or last reset.

        The result also has the differences between its files and the baseline.
        """
        return self._call("summarize_workspace", {"workspace_id": workspace_id})

    def update_workspace(
        self,
        workspace_id: str,
        *,
        name: str | None = None,
        clear_name: bool = False,
        labels: Mapping[str, str] | None = None,
        clear_labels: Sequence[str] | None = None,
        vcpu_count: int | None = None,
        mem_mib: int | None = None,
        ttl_seconds: int | None = None,
        network_policy: str | None = None,
        clear_egress: bool = False,
        egress_allow: Sequence[str] | None = None,
        egress_deny: Sequence[str] | None = None,
    ) -> Result:
        """Change the name, the labels and the settings of a workspace.

        egress_allow and egress_deny replace all rules of their kind, and clear_egress removes all
        rules. A running workspace gets ttl_seconds and network_policy immediately. The field
        `applies_at_next_start` of the result names the settings that wait until the workspace is
        stopped and started.
        """
        params = {
            "workspace_id": workspace_id, "name": name, "clear_name": clear_name, "labels": labels, "clear_labels": clear_labels,
            "vcpu_count": vcpu_count, "mem_mib": mem_mib, "ttl_seconds": ttl_seconds, "network_policy": network_policy,
            "clear_egress": clear_egress, "egress_allow": egress_allow, "egress_deny": egress_deny,
        }
        return self._call("update_workspace", params)

    def start_workspace(self, workspace_id: str, *, on_progress: OnProgress | None = None) -> Result:
        """Start a stopped workspace with its files."""
        return self._call("start_workspace", {"workspace_id": workspace_id}, on_progress=on_progress)

    def stop_workspace(self, workspace_id: str) -> Result:
        """Stop a workspace. Its files, snapshots and history remain."""
        return self._call("stop_workspace", {"workspace_id": workspace_id})

    def pause_workspace(self, workspace_id: str) -> Result:
        """Save a workspace with its running programs, and end its machine.

        The next operation on the workspace resumes it.
        """
        return self._call("pause_workspace", {"workspace_id": workspace_id})

    def resume_workspace(self, workspace_id: str, *, on_progress: OnProgress | None = None) -> Result:
        """Resume a paused workspace."""
        return self._call("resume_workspace", {"workspace_id": workspace_id}, on_progress=on_progress)

    def delete_workspace(self, workspace_id: str) -> Result:
        """Delete a workspace with its files, snapshots and history."""
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
        user: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> Result:
        """Run a command in /workspace, and wait until the command ends.

        command, user, on_stdout and on_stderr are as in run_in_vm, but command is required. secret_env
        is {SECRET: VARIABLE}. cwd is the working directory.
        """
        params = {
            "workspace_id": workspace_id, **program_of(command), "timeout_seconds": timeout_seconds, "secret_env": secret_env, "env": env, "cwd": cwd,
            "user": user,
        }
        return self._call("exec_workspace", params, on_stdout=on_stdout, on_stderr=on_stderr)

    def logs_workspace(self, workspace_id: str) -> Result:
        """List the commands that ran since the workspace was created or last reset.

        Each command has its output.
        """
        return self._call("logs_workspace", {"workspace_id": workspace_id})

    def network_log_workspace(self, workspace_id: str, *, tail_lines: int = 200, all: bool = False) -> Result:
        """List the allowed and refused connections of a workspace."""
        return self._call("network_log_workspace", {"workspace_id": workspace_id, "tail_lines": tail_lines, "all": all})


def _secrets(secrets: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    if secrets is None:
        return None
    return [{**s, "file_path": host_path(s["file_path"])} if s.get("file_path") else dict(s) for s in secrets]
