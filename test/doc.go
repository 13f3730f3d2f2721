// Package test tests the built programs bin/pyro and bin/pty-mcp. The tests cover documented
// behavior, behavior under faults, and cleanup in all cases. Most tests need real machines. Run
// them with `make machines`.
package test
