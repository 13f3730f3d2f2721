//go:build !race

package danger

// raced reports whether the race detector is on. The race detector makes the check about ten times
// slower.
const raced = false
