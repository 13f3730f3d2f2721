package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// inside is an environment variable. In a child process, it selects a function of played.
const inside = "PYRO_TEST_INSIDE"

var played = map[string]func(*testing.T){
	"tool":    func(t *testing.T) { NeedsTool(t, "no-such-program") },
	"present": func(t *testing.T) { t.Log("found " + NeedsTool(t, "sh")) },
	"lacks":   func(t *testing.T) { Lacks(t, "no loop devices") },
	"seed":    func(t *testing.T) { t.Log("drawn from", Seed(t, 7)) },
	"seeds":   func(t *testing.T) { t.Log(slices.Collect(Seeds(t, 3))) },
	"third": func(t *testing.T) {
		calls := 0
		Eventually(t, "three calls", func() bool { calls++; return calls == 3 })
		t.Log("calls:", calls)
	},
	"never": func(t *testing.T) { Eventually(t, "it rains", func() bool { return false }) },
}

// TestPlayed runs only in a child process that TestEnds starts.
func TestPlayed(t *testing.T) {
	if play := played[os.Getenv(inside)]; play != nil {
		play(t)
	}
}

func TestEnds(t *testing.T) {
	root := os.Getuid() == 0
	for _, c := range []struct {
		play, variable string
		fails          bool
		says           string
	}{
		{"tool", "", false, "--- SKIP"},
		{"tool", "PYRO_TEST_REQUIRE=1", true, "no-such-program is not installed"},
		{"present", "PYRO_TEST_REQUIRE=1", false, "found /"},
		{"lacks", "", false, "no loop devices"},
		{"lacks", "PYRO_TEST_REQUIRE=1", root, "no loop devices"},
		{"seed", "", false, "PYRO_TEST_SEED=7"},
		{"seed", "PYRO_TEST_SEED=12", false, "drawn from 12"},
		{"seeds", "", false, "[0 1 2]"},
		{"seeds", "PYRO_TEST_SEED=18446744073709551615", false, "[18446744073709551615 0 1]"},
		{"seed", "PYRO_TEST_SEED=many", true, `"many" is not a number`},
		{"third", "", false, "calls: 3"},
		{"never", "PYRO_TEST_PATIENCE=20ms", true, "not so after 20ms: it rains"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPlayed$", "-test.v")
		cmd.Env = append(os.Environ(), "PYRO_TEST_REQUIRE=", "PYRO_TEST_SEED=", inside+"="+c.play, c.variable)
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
			t.Errorf("%s with %q: %v\n%s", c.play, c.variable, err, out)
		}
	}
}
