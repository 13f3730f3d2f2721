//go:build machine

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kills is how often each operation is killed. PYRO_TEST_KILLS has it be more.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("PYRO_TEST_KILLS")); err == nil {
		return n
	}
	return 1
}

// draws bounds how often a round is drawn whose kill hits nobody.
const draws = 8

// drawn does a round until its kill has hit somebody, each time with less of the time that it may come after.
func drawn(t *testing.T, what string, within time.Duration, round func(within time.Duration) (hit bool)) {
	t.Helper()
	for range draws {
		if round(within) {
			return
		}
		t.Logf("%s: nobody was there to be killed", what)
		within /= 2
	}
	t.Errorf("%s: in %d rounds nobody was there to be killed", what, draws)
}

// hit kills a process, and tells whether it was there to be killed.
func hit(pid int) bool { return pid != 0 && !ended(pid) && syscall.Kill(pid, syscall.SIGKILL) == nil }

// interruption is a run of pyro in the midst of which somebody was to be killed.
type interruption struct {
	killed       bool // who was to be was still there
	acknowledged bool // pyro succeeded
	out, said    string
}

// interrupt runs pyro, and kills a process after a while, unless it has ended by then. who is asked which one, once pyro has started: given its own, and what is closed when it ends.
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
	victim := who(cmd.Process.Pid, ended)
	select {
	case <-time.After(after):
	case <-ended:
	}
	killed := hit(victim)
	<-ended
	if killed && victim != cmd.Process.Pid {
		if err := gone(victim); err != nil {
			p.t.Fatal(err)
		}
	}
	return interruption{killed, cmd.ProcessState.Success(), out.String(), fmt.Sprintf("%v %s", cmd.ProcessState, errs.String())}
}

// victimOf is the process of those who are killed.
func victimOf(who string, supervisor, machine int) int {
	return map[string]int{"supervisor": supervisor, "machine": machine}[who]
}

// find gives the processes of a workspace. A supervisor may have no machine yet.
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

// processes gives those of a workspace that runs: of its supervisor, and of its machine.
func (p *program) processes(id string) (supervisor, machine int) {
	p.t.Helper()
	supervisor, machine, running := p.find(id)
	if !running {
		p.t.Fatal("no supervisor was found")
	}
	return supervisor, machine
}

// folders are those of all workspaces, the ones without a record too.
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

// coming waits for somebody of a workspace that is being started, whose folder is none of those that are passed over. 0: it came to its end before they were seen.
func (p *program) coming(who string, over []string, ended <-chan struct{}) (pid int) {
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

// noneIsHalf makes workspaces and deletes them until nothing is left of those whose makers were killed: that goes with the next one, once their machines have ended.
func (p *program) noneIsHalf(make ...string) {
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
