// Package test holds the tests of the built program, bin/pyro, on real machines: what it promises its users, what it does under faults, and that it leaves
// nothing behind however it ends. `make machines` runs them.
package test
