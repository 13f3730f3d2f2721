"""Snapshots, resets and forks of workspaces."""

from __future__ import annotations

from collections.abc import Mapping

from ._call import OnProgress
from ._client import Client, Result


class Snapshots(Client):
    """Operations on snapshots of workspaces."""

    def create_snapshot(
        self, workspace_id: str, snapshot_name: str, *, full: bool = False, on_progress: OnProgress | None = None
    ) -> Result:
        """Create a snapshot of /workspace. With full, the snapshot includes the root disk."""
        params = {"workspace_id": workspace_id, "snapshot_name": snapshot_name, "full": full}
        return self._call("create_snapshot", params, on_progress=on_progress)

    def list_snapshots(self, workspace_id: str) -> Result:
        """List the baseline and the snapshots of a workspace."""
        return self._call("list_snapshots", {"workspace_id": workspace_id})

    def delete_snapshot(self, workspace_id: str, snapshot_name: str) -> Result:
        """Delete a snapshot."""
        return self._call("delete_snapshot", {"workspace_id": workspace_id, "snapshot_name": snapshot_name})

    def reset_workspace(self, workspace_id: str, *, snapshot: str = "baseline", on_progress: OnProgress | None = None) -> Result:
        """Reset a workspace to the baseline or a snapshot, with a new machine."""
        return self._call("reset_workspace", {"workspace_id": workspace_id, "snapshot": snapshot}, on_progress=on_progress)

    def fork_workspace(
        self,
        workspace_id: str,
        *,
        snapshot: str | None = None,
        live: bool = False,
        count: int = 1,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Create workspaces from another workspace or from a snapshot of it.

        With live, the running programs of the workspace also continue in the new workspaces. If some
        workspaces could not be created, the result has the reason in `error`.
        """
        params = {"workspace_id": workspace_id, "snapshot": snapshot, "live": live, "count": count, "name": name, "labels": labels}
        return self._call("fork_workspace", params, on_progress=on_progress)
