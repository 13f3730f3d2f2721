// Command floorrun runs a command in a bare machine that a template restores. It is the floor for a
// start in a separate process. Usage: floorrun TEMPLATE-DIR IMAGE COMMAND...
package main

import (
	"context"
	"log"
	"os"

	"github.com/pyro-mcp/pyro/bench/floor"
)

func main() {
	t, err := floor.Read(os.Args[1])
	if err == nil {
		err = floor.Run(context.Background(), t, os.Args[2], os.Args[3:])
	}
	if err != nil {
		log.Fatal(err)
	}
}
