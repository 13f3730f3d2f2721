// Package test holds the tests of the built programs, bin/pyro and bin/pty-mcp: what they promise their users, what they do under faults, and that they leave nothing
// behind however they end. Most need real machines: `make machines` runs them.
package test
