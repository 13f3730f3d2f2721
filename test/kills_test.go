//go:build machine

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// kills returns how often the tests kill each operation. The variable PYRO_TEST_KILLS increases the
// number.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("PYRO_TEST_KILLS")); err == nil {
		return n
	}
	return 1
}

// draws is the maximum number of attempts to kill a live process.
const draws = 8

// drawn repeats a round until the round kills a live process. Each attempt uses a shorter maximum
// delay.
func drawn(t *testing.T, what string, within time.Duration, round func(within time.Duration) (hit bool)) {
	t.Helper()
	for range draws {
		if round(within) {
			return
		}
		t.Logf("%s: no process was alive to be killed", what)
		within /= 2
	}
	t.Errorf("%s: in %d rounds no process was alive to be killed", what, draws)
}

// handle returns a handle of a process, or nil if pid is 0. After a process has ended, the kernel
// can give its id to a new process. A kill by the handle never hits that new process.
func handle(t *testing.T, pid int) *os.Process {
	t.Helper()
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hit kills a process. It reports whether the process was alive.
func hit(p *os.Process) bool { return p != nil && !ended(p.Pid) && p.Kill() == nil }

// interruption is the result of running pyro while a process is killed.
type interruption struct {
	killed       bool // the killed process was alive
	acknowledged bool // pyro succeeded
	out, said    string
}

// interrupt runs pyro and kills a process after a delay. After pyro has started, the callback
// returns the id of this process. The callback gets the client's process id, and a channel that is
// closed when the client ends.
func (p *program) interrupt(args []string, after time.Duration, who func(client int, ended <-chan struct{}) int) interruption {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	victim := handle(p.t, who(cmd.Process.Pid, ended))
	select {
	case <-time.After(after):
	case <-ended:
	}
	killed := hit(victim)
	<-ended
	if killed && victim.Pid != cmd.Process.Pid {
		if err := gone(victim.Pid); err != nil {
			p.t.Fatal(err)
		}
	}
	return interruption{killed, cmd.ProcessState.Success(), out.String(), fmt.Sprintf("%v %s", cmd.ProcessState, errs.String())}
}

// victimOf returns the process id of the supervisor or of the machine.
func victimOf(who string, supervisor, machine int) int {
	return map[string]int{"supervisor": supervisor, "machine": machine}[who]
}

// find returns the ids of a workspace's processes. machine is 0 if the supervisor has no machine
// yet.
func (p *program) find(id string) (supervisor, machine int, running bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	lock := filepath.Join(p.state, "workspaces", id, "supervisor.lock")
	for _, file := range files {
		if target, _ := os.Readlink(file); target != lock {
			continue
		}
		supervisor, _ = strconv.Atoi(strings.Split(file, "/")[2])
		if all := machines(supervisor); len(all) > 0 {
			return supervisor, all[0], true
		}
	}
	return supervisor, 0, false
}

// processes returns the ids of the supervisor and the machine of a running workspace.
func (p *program) processes(id string) (supervisor, machine int) {
	p.t.Helper()
	supervisor, machine, running := p.find(id)
	if !running {
		p.t.Fatal("no supervisor was found")
	}
	return supervisor, machine
}

// folders returns the folders of all workspaces, including workspaces without a record.
func (p *program) folders() (ids []string) {
	p.t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.state, "workspaces"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

// awaitStarting waits until a workspace that is starting has a supervisor or a machine, and returns
// its process id. It ignores the workspaces in the list. It returns 0 if the client ends first.
func (p *program) awaitStarting(who string, over []string, ended <-chan struct{}) (pid int) {
	p.t.Helper()
	for {
		for _, id := range p.folders() {
			if slices.Contains(over, id) {
				continue
			}
			supervisor, m, _ := p.find(id)
			if pid = victimOf(who, supervisor, m); pid != 0 {
				return pid
			}
		}
		select {
		case <-ended:
			return 0
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitNoPartialWorkspaces creates and deletes workspaces until the remains of killed creations are
// gone. Each creation removes the remains of workspaces whose machines have ended.
func (p *program) awaitNoPartialWorkspaces(make ...string) {
	p.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		made := p.must(slices.Concat([]string{"workspace"}, make, []string{"--id-only"})...)
		p.must("workspace", "delete", strings.TrimSpace(made))
		left := p.folders()
		if len(left) == len(p.list()) {
			return
		}
		if time.Since(began) > patience {
			p.t.Fatalf("left: %v", left)
		}
	}
}
