package pyro

// titles are what people are shown of tools.
var titles = map[string]string{
	"vm_run": "Run a command in a fresh machine", "vm_list_environments": "List environments", "vm_create": "Create a machine", "vm_start": "Start a machine",
	"vm_exec": "Run a command in a machine", "vm_stop": "Stop a machine", "vm_delete": "Delete a machine", "vm_status": "Show a machine",
	"vm_network_info": "Show a machine's network", "vm_reap_expired": "Delete expired machines",

	"workspace_create": "Create a workspace", "workspace_list": "List workspaces", "workspace_status": "Show a workspace", "workspace_update": "Rename or label a workspace",
	"workspace_stop": "Stop a workspace", "workspace_start": "Start a workspace", "workspace_pause": "Pause a workspace", "workspace_resume": "Resume a workspace",
	"workspace_delete": "Delete a workspace", "workspace_exec": "Run a command", "workspace_logs": "List commands that were run", "workspace_summary": "Summarize a workspace",
	"workspace_reset": "Reset a workspace", "workspace_fork": "Fork a workspace", "workspace_network_log": "List network activity",

	"workspace_sync_push": "Copy into a workspace", "workspace_file_list": "List files", "workspace_file_read": "Read a file", "workspace_file_write": "Write a file",
	"workspace_patch_apply": "Apply a patch", "workspace_diff": "Show changes", "workspace_export": "Copy to the host", "workspace_disk_export": "Export a disk",
	"workspace_disk_list": "List files of a disk", "workspace_disk_read": "Read a file of a disk",

	"snapshot_create": "Create a snapshot", "snapshot_list": "List snapshots", "snapshot_delete": "Delete a snapshot",

	"service_start": "Start a service", "service_list": "List services", "service_status": "Show a service", "service_logs": "Show a service's output",
	"service_stop": "Stop a service",

	"shell_open": "Open a shell", "shell_read": "Read a shell", "shell_write": "Type into a shell", "shell_signal": "Signal a shell", "shell_close": "Close a shell",
}
