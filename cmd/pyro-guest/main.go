// Command pyro-guest is the init and the agent of a machine. It is also the agent of host_compat,
// which runs on the host. The name of the program or its first argument selects the role.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/guest"
	"github.com/pyro-mcp/pyro/internal/agent/host"
)

// version is the version of the protocol. pyro contains this program, so both ends have the same
// version.
const version = "1"

func main() {
	var err error
	switch {
	case len(os.Args) >= 2 && os.Args[1] == guest.AgentArgument:
		err = guest.Agent(version, os.Args[2:])
	case os.Getpid() == 1:
		guest.Init()
	case os.Args[0] == guest.AgentName:
		err = guest.Serve(version)
	case len(os.Args) == 4 && (os.Args[1] == "host" || os.Args[1] == "host-agent"):
		err = onHost(os.Args[1], os.Args[2], os.Args[3])
	default:
		err = errors.New("only pyro starts this program")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pyro-guest:", err)
		os.Exit(1)
	}
}

// onHost runs the agent of host_compat, or its reaper. The parameter inherited is the descriptor of
// the link. volume is the folder of the machine's volume, or empty.
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
