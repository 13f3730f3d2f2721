package workspace

import "github.com/pyro-mcp/pyro/internal/supervisor/remote"

// Types of package remote. Shell is a program that outlives its caller. Exit is the outcome of a
// command. CommandOutput is output of a command. Usage describes used resources.
type (
	Exit          = remote.Exit
	Shell         = remote.Shell
	ShellRead     = remote.ShellRead
	ShellOutput   = remote.ShellOutput
	Readiness     = remote.Readiness
	ServiceReader = remote.ServiceReader
	ServiceStart  = remote.ServiceStart
	Usage         = remote.Usage
	CommandRead   = remote.CommandRead
	CommandOutput = remote.CommandOutput

	client = remote.Client
)

// ServiceLogBytes is the approximate number of bytes that are kept of each stream of a service.
const ServiceLogBytes = remote.ServiceLogBytes
