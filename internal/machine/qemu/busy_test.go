//go:build machine

package qemu

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
	"github.com/pyro-mcp/pyro/internal/program"
)

// TestTemplateOfBusyHost makes a template while QEMU rarely runs. The timer of the machine must
// work nevertheless. The test does not run beside other tests, because it stops all QEMUs of this
// process.
func TestTemplateOfBusyHost(t *testing.T) {
	root := machinetest.Debian(t)
	driver := driverIn(t, machine.TCG, privateDirs(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := driver.Prove(ctx, nil); err != nil {
		t.Fatal(err)
	}
	busy, calm := context.WithCancel(ctx)
	defer calm()
	starved := make(chan struct{})
	go func() {
		defer close(starved)
		starve(busy)
	}()
	s := startSmall(t, driver, root)
	calm()
	<-starved
	var out bytes.Buffer
	if _, err := s.agent.Exec(ctx, program.Command{Argv: []string{"sh", "-c", "cat /proc/timer_list; sleep 0.1"}}, program.Attach{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	const right = 1 << 28 // for a counter of nanoseconds, divided by 16
	_, processor, _ := strings.Cut(out.String(), "Per CPU device")
	found := regexp.MustCompile(`Clock Event Device: lapic\n(?: .*\n)*? mult: +(\d+)\n`).FindStringSubmatch(processor)
	if found == nil {
		t.Fatalf("no timer: %s", processor)
	}
	t.Logf("phases: %q", s.heard.all)
	if mult, _ := strconv.ParseFloat(found[1], 64); mult < right*0.5 || mult > right*1.05 {
		t.Errorf("the timer has %.2f times the right frequency", mult/right)
	}
}

// starve lets the QEMUs of this process run only for a fifth of their first ten seconds.
func starve(ctx context.Context) {
	seen := map[int]time.Time{}
	for ctx.Err() == nil {
		var young []int
		for _, pid := range qemus() {
			if _, ok := seen[pid]; !ok {
				seen[pid] = time.Now()
			}
			if time.Since(seen[pid]) < 10*time.Second {
				young = append(young, pid)
			}
		}
		for _, pid := range young {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		time.Sleep(100 * time.Millisecond)
		for _, pid := range young {
			syscall.Kill(pid, syscall.SIGCONT)
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// qemus returns the PIDs of the QEMUs that this process has started.
func qemus() (all []int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			name, _ := os.ReadFile("/proc/" + child + "/comm")
			if pid, err := strconv.Atoi(child); err == nil && strings.HasPrefix(string(name), "qemu-system") {
				all = append(all, pid)
			}
		}
	}
	return all
}
