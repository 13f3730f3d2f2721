//go:build race

package danger

// raced tells that the race detector slows all down some ten times.
const raced = true
