// Command pyro-guest is what runs inside a machine: its init and its agent; and, as a process of the host, the agent for host_compat. Which of them it
// is, its name tells, or its first argument.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/guest"
	"github.com/pyro-mcp/pyro/internal/agent/host"
)

// version is that of the protocol's other end too: both are built together.
const version = "1"

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == guest.SandboxArgument:
		err = guest.Sandbox(version)
	case os.Getpid() == 1:
		guest.Init()
	case os.Args[0] == guest.AgentName:
		err = guest.Serve(version)
	case len(os.Args) == 4 && (os.Args[1] == "host" || os.Args[1] == "host-agent"):
		err = onHost(os.Args[1], os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("it is started by pyro, in a machine or for one")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pyro-guest:", err)
		os.Exit(1)
	}
}

// onHost is the agent of host_compat, and the process that reaps for it. volume is the folder of the machine's volume; empty: there is none.
func onHost(part, inherited, volume string) error {
	fd, err := strconv.Atoi(inherited)
	if err != nil {
		return err
	}
	if part == "host" {
		return host.Reap(fd, []string{"host-agent", "3", volume})
	}
	return host.Serve(fd, volume, version)
}
