// Command pyro-runsc runs pyro's machines under gVisor. It is gVisor's runsc with two more
// commands, machine and gofer FOLDER BYTES MARK. For comparison it also offers the command run, and
// the commands that run needs.
package main

import (
	"fmt"
	"os"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "machine":
		exit(machine())
	case len(os.Args) == 7 && os.Args[1] == "gofer":
		exit(gofer(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]))
	}
	const internal = "internal use only"
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Run): "", new(sentrycmd.Boot): internal, new(sentrycmd.Umount): internal, new(cmd.Gofer): internal,
	}, nil)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
