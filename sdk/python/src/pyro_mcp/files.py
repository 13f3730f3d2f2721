"""Files and disks of workspaces."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ._call import OnProgress
from ._client import Client, HostPath, Result
from ._client import host_path as absolute_path


def copied_path(path: HostPath) -> str | None:
    """Make a path on the host absolute, but keep the "/" or "/." at its end."""
    absolute, name = absolute_path(path), os.fspath(path)
    for end in ("/.", "/"):
        if absolute and name.endswith(end):
            return absolute + end
    return absolute


class Files(Client):
    """Operations on the files of running workspaces, and on the disks of stopped workspaces."""

    def push_workspace_sync(
        self,
        workspace_id: str,
        source_path: HostPath,
        *,
        dest: str = "/workspace",
        include_ignored: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Copy a folder or an archive from the host into a workspace, atomically.

        Files that git ignores are omitted, unless include_ignored is set.
        """
        params = {"workspace_id": workspace_id, "source_path": absolute_path(source_path), "dest": dest, "include_ignored": include_ignored}
        return self._call("push_workspace_sync", params, on_progress=on_progress)

    def pull_workspace_sync(
        self,
        workspace_id: str,
        host_path: HostPath | None = None,
        *,
        resolve: str | None = None,
        dry_run: bool = False,
        include_ignored: bool = False,
        git: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Bring the changes of a workspace back into a folder of the host, atomically.

        The default for host_path is the folder that the workspace was created from. Nothing else in
        the folder is touched. If the host has changed the same files, the call fails and lists them,
        unless resolve is "ours", "theirs" or "merge". With git, the commits of the workspace are
        fetched as the branch pyro/WORKSPACE_ID.
        """
        params = {
            "workspace_id": workspace_id,
            "host_path": absolute_path(host_path),
            "resolve": resolve,
            "dry_run": dry_run,
            "include_ignored": include_ignored,
            "git": git,
        }
        return self._call("pull_workspace_sync", params, on_progress=on_progress)

    def list_workspace_files(
        self, workspace_id: str, path: str = "/workspace", recursive: bool = False, *, include_git: bool = False
    ) -> Result:
        """List the files at a path. Recursive lists omit .git, unless include_git is set."""
        params = {"workspace_id": workspace_id, "path": path, "recursive": recursive, "include_git": include_git}
        return self._call("list_workspace_files", params)

    def read_workspace_file(self, workspace_id: str, path: str, *, max_bytes: int = 65536) -> Result:
        """Read the first max_bytes of a text file."""
        return self._call("read_workspace_file", {"workspace_id": workspace_id, "path": path, "max_bytes": max_bytes})

    def write_workspace_file(self, workspace_id: str, path: str, *, text: str) -> Result:
        """Create or replace a text file. Missing parent folders are created."""
        return self._call("write_workspace_file", {"workspace_id": workspace_id, "path": path, "text": text})

    def apply_workspace_patch(self, workspace_id: str, *, patch: str) -> Result:
        """Apply a unified patch, atomically."""
        return self._call("apply_workspace_patch", {"workspace_id": workspace_id, "patch": patch})

    def diff_workspace(
        self,
        workspace_id: str,
        *,
        paths: Sequence[str] | None = None,
        include_ignored: bool = False,
        stat: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Compare /workspace with its state at creation.

        Folders named __pycache__ and new files that a .gitignore ignores are omitted, unless
        include_ignored is set. With stat, the result has no patch.
        """
        params = {"workspace_id": workspace_id, "paths": paths, "include_ignored": include_ignored, "stat": stat}
        return self._call("diff_workspace", params, on_progress=on_progress)

    def export_workspace(
        self,
        workspace_id: str,
        path: str,
        *,
        output_path: HostPath,
        force: bool = False,
        delete: bool = False,
        dry_run: bool = False,
        include_git: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Copy a file or a folder to the host.

        With force, replace an existing file, or add to an existing folder and replace its files.
        An existing folder gets no .git, unless include_git is set.
        With delete, also delete files of an existing folder that the exported folder does not have,
        except those that git ignores. With dry_run, only return what would be deleted.
        """
        params = {
            "workspace_id": workspace_id,
            "path": path,
            "output_path": absolute_path(output_path),
            "force": force,
            "delete": delete,
            "dry_run": dry_run,
            "include_git": include_git,
        }
        return self._call("export_workspace", params, on_progress=on_progress)

    def copy_to_workspace(
        self,
        workspace_id: str,
        source_path: HostPath,
        dest: str,
        *,
        keep_owners: bool = False,
        uid: int = 0,
        gid: int = 0,
        follow_link: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Copy a file or a folder of the host to any path of the machine.

        If dest is a folder, the copy is made in it. A source that ends with "/." means the content
        of the folder. Folders are merged, and files are replaced.
        """
        params = {
            "workspace_id": workspace_id,
            "source_path": copied_path(source_path),
            "dest": dest,
            "keep_owners": keep_owners,
            "uid": uid,
            "gid": gid,
            "follow_link": follow_link,
        }
        return self._call("copy_to_workspace", params, on_progress=on_progress)

    def copy_from_workspace(
        self, workspace_id: str, path: str, output_path: HostPath, *, on_progress: OnProgress | None = None
    ) -> Result:
        """Copy a file or a folder from any path of the machine to the host.

        If output_path is a folder, the copy is made in it. A path that ends with "/." means the
        content of the folder. Folders are merged, and files are replaced.
        """
        params = {"workspace_id": workspace_id, "path": path, "output_path": copied_path(output_path)}
        return self._call("copy_from_workspace", params, on_progress=on_progress)

    def export_workspace_disk(
        self, workspace_id: str, *, output_path: HostPath, force: bool = False, on_progress: OnProgress | None = None
    ) -> Result:
        """Copy the disk of a stopped workspace to the host, as a raw ext4 image.

        With force, replace an existing file.
        """
        params = {"workspace_id": workspace_id, "output_path": absolute_path(output_path), "force": force}
        return self._call("export_workspace_disk", params, on_progress=on_progress)

    def list_workspace_disk(
        self, workspace_id: str, path: str = "/workspace", recursive: bool = False, *, include_git: bool = False
    ) -> Result:
        """List the files at a path of a stopped workspace.

        Recursive lists omit .git, unless include_git is set.
        """
        params = {"workspace_id": workspace_id, "path": path, "recursive": recursive, "include_git": include_git}
        return self._call("list_workspace_disk", params)

    def read_workspace_disk(self, workspace_id: str, path: str, *, max_bytes: int = 65536) -> Result:
        """Read the first max_bytes of a text file of a stopped workspace."""
        return self._call("read_workspace_disk", {"workspace_id": workspace_id, "path": path, "max_bytes": max_bytes})
