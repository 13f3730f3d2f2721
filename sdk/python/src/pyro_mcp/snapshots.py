"""States of workspaces to go back to, and to begin others from."""

from __future__ import annotations

from collections.abc import Mapping

from ._call import OnProgress
from ._client import Client, Result


class Snapshots(Client):
    """What can be done with the states of workspaces."""

    def create_snapshot(self, workspace_id: str, snapshot_name: str, *, full: bool = False) -> Result:
        """Keep the present state of /workspace, with full of the root disk too, under a name."""
        return self._call("create_snapshot", {"workspace_id": workspace_id, "snapshot_name": snapshot_name, "full": full})

    def list_snapshots(self, workspace_id: str) -> Result:
        """The baseline and the snapshots of a workspace."""
        return self._call("list_snapshots", {"workspace_id": workspace_id})

    def delete_snapshot(self, workspace_id: str, snapshot_name: str) -> Result:
        """Forget a snapshot."""
        return self._call("delete_snapshot", {"workspace_id": workspace_id, "snapshot_name": snapshot_name})

    def reset_workspace(self, workspace_id: str, *, snapshot: str = "baseline", on_progress: OnProgress | None = None) -> Result:
        """Start over from the baseline or a snapshot, with a fresh machine."""
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
        """Make workspaces that begin as another is now, or as a snapshot of it; `live`: with all that runs in it. Where not all could be made, `error` tells why."""
        params = {"workspace_id": workspace_id, "snapshot": snapshot, "live": live, "count": count, "name": name, "labels": labels}
        return self._call("fork_workspace", params, on_progress=on_progress)
