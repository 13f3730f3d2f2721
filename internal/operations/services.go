package operations

import (
	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/mcp"
)

// services returns the operations on services: background programs of a workspace.
func services() []Operation {
	name := mcp.String("service_name", "").Require()
	published := mcp.Objects("published_ports", "ports to open on 127.0.0.1 of the host",
		mcp.Integer("guest_port", "", 1, 65535).Require(), mcp.Integer("host_port", "default: a free one", 0, 65535))
	return []Operation{
		operation("start_service", "pyro workspace service start", (*pyro.Pyro).StartService).
			tool("service_start", "Start a service", "Start a named program in the background and wait until it is ready.", mcp.Runs,
				argWorkspace, name, argCommand, argUser, argCwd,
				mcp.Object("readiness", "", mcp.String("type", "", string(pyro.ReadyFile), string(pyro.ReadyTCP), string(pyro.ReadyHTTP), string(pyro.ReadyCommand)).Require(),
					mcp.String("target", "path, [HOST:]PORT, URL or command").Require()),
				mcp.Integer("ready_timeout_seconds", "", 1, 3600).Default(pyro.DefaultReadyTimeoutSeconds), mcp.Integer("ready_interval_ms", "", 1, 60_000).Default(pyro.DefaultReadyIntervalMS),
				argSecretEnv, published,
				mcp.String("restart", "when to restart its program after its end", string(pyro.RestartNo), string(pyro.RestartOnFailure), string(pyro.RestartAlways)).Default(string(pyro.RestartNo))).remote(NeedsMachine),
		operation("list_services", "pyro workspace service list", byWorkspace((*pyro.Pyro).ListServices)).
			tool("service_list", "List services", "List the services of a workspace.", mcp.Reads, argWorkspace).remote(NeedsRecords),
		operation("status_service", "pyro workspace service status", byService((*pyro.Pyro).StatusService)).
			tool("service_status", "Show a service", "Show the state of a service.", mcp.Reads, argWorkspace, name).remote(NeedsRecords),
		operation("logs_service", "pyro workspace service logs", (*pyro.Pyro).LogsService).
			tool("service_logs", "Show a service's output", "Show the last output of a service.", mcp.Reads, argWorkspace, name, argTail, argAll).remote(NeedsRecords),
		operation("stop_service", "pyro workspace service stop", byService((*pyro.Pyro).StopService)).
			tool("service_stop", "Stop a service", "Stop a service.", mcp.Replaces, argWorkspace, name).remote(NeedsMachine),
		operation("publish_service", "pyro workspace service publish", (*pyro.Pyro).PublishService).
			tool("service_publish", "Publish a service's ports", "Publish more ports of a running service.", mcp.Adds, argWorkspace, name, published.Require()),
		operation("unpublish_service", "pyro workspace service unpublish", (*pyro.Pyro).UnpublishService).
			tool("service_unpublish", "Close a service's ports", "Close published ports of a running service.", mcp.Replaces, argWorkspace, name,
				mcp.Integers("guest_ports", "ports of the workspace", 1, 65535).Require()),
	}
}
