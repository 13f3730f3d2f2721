"""Files of workspaces, and their disks."""

from __future__ import annotations

from collections.abc import Sequence

from ._call import OnProgress
from ._client import Client, HostPath, Result, host_path


class Files(Client):
    """What can be done with the files of workspaces that run, and with the disks of those that are stopped."""

    def push_workspace_sync(
        self,
        workspace_id: str,
        source_path: HostPath,
        *,
        dest: str = "/workspace",
        include_ignored: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Bring a folder or an archive of the host into a workspace: all of it or nothing.

        What git ignores in a folder is left out, unless include_ignored.
        """
        params = {"workspace_id": workspace_id, "source_path": host_path(source_path), "dest": dest, "include_ignored": include_ignored}
        return self._call("push_workspace_sync", params, on_progress=on_progress)

    def list_workspace_files(
        self, workspace_id: str, path: str = "/workspace", recursive: bool = False, *, include_git: bool = False
    ) -> Result:
        """List what is at a path; recursive lists leave out .git, unless include_git."""
        params = {"workspace_id": workspace_id, "path": path, "recursive": recursive, "include_git": include_git}
        return self._call("list_workspace_files", params)

    def read_workspace_file(self, workspace_id: str, path: str, *, max_bytes: int = 65536) -> Result:
        """Read a text file, from its beginning."""
        return self._call("read_workspace_file", {"workspace_id": workspace_id, "path": path, "max_bytes": max_bytes})

    def write_workspace_file(self, workspace_id: str, path: str, *, text: str) -> Result:
        """Create or replace a text file, with the folders above it."""
        return self._call("write_workspace_file", {"workspace_id": workspace_id, "path": path, "text": text})

    def apply_workspace_patch(self, workspace_id: str, *, patch: str) -> Result:
        """Apply a unified patch: all of it or nothing."""
        return self._call("apply_workspace_patch", {"workspace_id": workspace_id, "patch": patch})

    def diff_workspace(
        self, workspace_id: str, *, paths: Sequence[str] | None = None, include_ignored: bool = False, stat: bool = False
    ) -> Result:
        """Tell how /workspace differs from the state in which it was created.

        Folders named __pycache__ and new files that a .gitignore ignores are left out, unless include_ignored; stat leaves out the patch.
        """
        params = {"workspace_id": workspace_id, "paths": paths, "include_ignored": include_ignored, "stat": stat}
        return self._call("diff_workspace", params)

    def export_workspace(self, workspace_id: str, path: str, *, output_path: HostPath, force: bool = False) -> Result:
        """Take a file or a folder out to the host; force replaces what is there."""
        params = {"workspace_id": workspace_id, "path": path, "output_path": host_path(output_path), "force": force}
        return self._call("export_workspace", params)

    def export_workspace_disk(
        self, workspace_id: str, *, output_path: HostPath, force: bool = False, on_progress: OnProgress | None = None
    ) -> Result:
        """Copy the disk of a stopped workspace to the host, as a raw ext4 image."""
        params = {"workspace_id": workspace_id, "output_path": host_path(output_path), "force": force}
        return self._call("export_workspace_disk", params, on_progress=on_progress)

    def list_workspace_disk(
        self, workspace_id: str, path: str = "/workspace", recursive: bool = False, *, include_git: bool = False
    ) -> Result:
        """List what is at a path of a stopped workspace; recursive lists leave out .git, unless include_git."""
        params = {"workspace_id": workspace_id, "path": path, "recursive": recursive, "include_git": include_git}
        return self._call("list_workspace_disk", params)

    def read_workspace_disk(self, workspace_id: str, path: str, *, max_bytes: int = 65536) -> Result:
        """Read a text file of a stopped workspace."""
        return self._call("read_workspace_disk", {"workspace_id": workspace_id, "path": path, "max_bytes": max_bytes})
