//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMachineEndIsReported checks that the status shows that a machine has ended, for every
// way to end. It also tests machines with running commands whose output no client reads.
func TestMachineEndIsReported(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(p *program, id string){
		"the machine is killed": func(p *program, id string) {
			supervisor, _ := p.processes(id)
			killProcess(p.t, machines(supervisor)[0])
		},
		"a process of the sentry's is killed": func(p *program, id string) {
			supervisor, _ := p.processes(id)
			for _, m := range machines(supervisor) {
				if all := childrenOf(m); len(all) > 0 {
					killProcess(p.t, all[len(all)-1]) // the kernel's OOM killer would choose this process, because it uses more memory than the sentry
					killProcess(p.t, all[1])
					return
				}
			}
			p.t.Skip("the machine has no such processes")
		},
		"its memory is used up": func(p *program, id string) {
			if r := p.run(nil, "workspace", "exec", id, "--", "tail", "/dev/zero"); r.code == 0 {
				p.t.Errorf("%+v", r)
			}
			if state := p.stateOf(id); state == "started" { // the kernel in the machine has killed only the command
				supervisor, _ := p.processes(id)
				killProcess(p.t, machines(supervisor)[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := workspaces(t)
			id := p.create("--mem-mib", "256")
			quiet := p.start("workspace", "exec", id, "--", "sh", "-c", "echo begun; sleep 1000")
			quiet.says("begun")
			unread := p.start("workspace", "exec", id, "--", "sh", "-c", "echo begun; yes")
			unread.says("begun")
			ends(p, id)
			began := time.Now()
			for p.stateOf(id) == "started" {
				if took := time.Since(began); took > patience {
					t.Fatalf("its state is still started after %s", took)
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf("reported after %s: %s", time.Since(began), p.reasonOf(id))
			if reason := p.reasonOf(id); reason == "" || strings.Contains(reason, "its supervisor was killed") {
				t.Errorf("it ended because %q", reason)
			}
			if end := quiet.end(); end.code == 0 {
				t.Errorf("a command that ran: %+v", end)
			}
			unread.Process.Kill()
			unread.end()
			p.must("workspace", "start", id)
			p.shell(id, "true")
		})
	}
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// childrenOf returns the ids of a process's children.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// reasonOf returns the reason why a workspace does not run.
func (p *program) reasonOf(id string) string {
	p.t.Helper()
	var v struct {
		Reason string `json:"state_reason"`
	}
	if err := json.Unmarshal([]byte(p.must("workspace", "status", id, "--json")), &v); err != nil {
		p.t.Fatal(err)
	}
	return v.Reason
}
