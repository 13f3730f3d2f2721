// Command pyro-runsc runs pyro's machines under gVisor. It is gVisor's runsc with the one command of pyro's, machine, and those of its own that one start by
// hand needs, run, for comparison.
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
	if len(os.Args) == 2 && os.Args[1] == "machine" {
		if err := machine(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	const internal = "internal use only"
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Run): "", new(sentrycmd.Boot): internal, new(sentrycmd.Umount): internal, new(cmd.Gofer): internal,
	}, nil)
}
