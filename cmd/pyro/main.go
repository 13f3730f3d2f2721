// Command pyro gives an AI agent its own computer. See docs/cli.md.
package main

import (
	"os"

	"github.com/pyro-mcp/pyro/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
