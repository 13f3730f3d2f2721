// Package testenv tells tests about the host that they run on, as Go's own internal/testenv does:
// which tools and privileges there are, and which seed random tests take.
//
// Without PYRO_TEST_REQUIRE a test skips what its host lacks. With PYRO_TEST_REQUIRE=1, which
// `make test` sets, a missing tool fails the test, and so does anything else that root should have.
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

// NeedsTool returns the path of a program that the test runs, and ends the test if there is none.
// It also looks where Debian keeps tools such as e2fsck, which an ordinary user's PATH leaves out.
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

// NeedsRoot skips the test if an ordinary user runs it. reason says what only root can do.
func NeedsRoot(t testing.TB, reason string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("only root can %s", reason)
	}
}

// Lacks ends the test because its host lacks something, such as mounts, that is no program. It
// fails only where root requires all: an ordinary user may well lack it.
func Lacks(t testing.TB, what ...any) {
	t.Helper()
	if required() && os.Getuid() == 0 {
		t.Fatal(append([]any{"this host lacks what the test needs: "}, what...)...)
	}
	t.Skip(what...)
}

// Seed returns the seed that decides the course of a random test: PYRO_TEST_SEED if that is set,
// otherwise usual. It logs the seed, so that a failed run can be repeated.
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

// Seeds yields n seeds for a test that is repeated with each: those from 0 on, or from
// PYRO_TEST_SEED on.
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

// Rounds returns how often a test repeats itself: usual, or long with PYRO_TEST_LONG=1, which
// `make soak` sets.
func Rounds(usual, long int) int {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return usual
}

// Rand returns a generator for a random test. usual is as in Seed.
func Rand(t testing.TB, usual uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t, usual), 0))
}
