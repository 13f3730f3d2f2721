// Package testenv tells tests which tools and privileges the host has, like Go's own
// internal/testenv. It also provides the seed of random tests, and waits for conditions.
//
// By default, a test is skipped if the host lacks something. PYRO_TEST_REQUIRE=1, which `make test`
// sets, makes a test fail if a tool is missing. It then also fails if root runs it and the host
// lacks another feature.
package testenv

import (
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const (
	requireVariable = "PYRO_TEST_REQUIRE"
	seedVariable    = "PYRO_TEST_SEED"
	longVariable    = "PYRO_TEST_LONG"
)

func required() bool { return os.Getenv(requireVariable) == "1" }

// NeedsTool returns the path of a program. If the program is missing, NeedsTool skips or fails the
// test. NeedsTool also searches the sbin folders, where Debian installs tools such as e2fsck.
func NeedsTool(t testing.TB, name string) (path string) {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	if required() {
		t.Fatalf("%s is not installed: run scripts/install.sh test", name)
	}
	t.Skipf("%s is not installed: scripts/install.sh test installs it", name)
	return ""
}

// NeedsRoot skips the test unless it runs as root. reason completes the sentence "only root can".
func NeedsRoot(t testing.TB, reason string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("only root can %s", reason)
	}
}

// Lacks skips the test because the host lacks a feature, such as mounts. If PYRO_TEST_REQUIRE=1 is
// set and the test runs as root, Lacks fails the test instead.
func Lacks(t testing.TB, what ...any) {
	t.Helper()
	if required() && os.Getuid() == 0 {
		t.Fatal(append([]any{"this host lacks what the test needs: "}, what...)...)
	}
	t.Skip(what...)
}

// Seed returns the seed of a random test. The seed is PYRO_TEST_SEED. If that variable is not set,
// it is the parameter. Seed logs the seed, so that a failure can be repeated.
func Seed(t testing.TB, usual uint64) uint64 {
	t.Helper()
	seed := usual
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q is not a number from 0 to 2^64-1", seedVariable, text)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// Seeds yields n consecutive seeds. The first one is PYRO_TEST_SEED, or 0 if that variable is not
// set.
func Seeds(t testing.TB, n int) iter.Seq[uint64] {
	t.Helper()
	first := Seed(t, 0)
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// Rounds returns the number of repetitions: the second parameter if PYRO_TEST_LONG=1 is set, as in
// `make soak`, and otherwise the first.
func Rounds(usual, long int) int {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return usual
}

// Rand returns a random generator. [Seed] chooses its seed.
func Rand(t testing.TB, usual uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t, usual), 0))
}
