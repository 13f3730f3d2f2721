//go:build machine

package test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// memories are what machines of a workspace were saved as, which of there is to be one at most.
func (p *program) memories(id string) []string {
	all, _ := filepath.Glob(filepath.Join(p.state, "workspaces", id, "disks", "memory-*"))
	return all
}

// TestFullDiskWhilePausing has no room for what a machine is saved as: it goes on.
func TestFullDiskWhilePausing(t *testing.T) {
	p := newProgram(t)
	if err := unix.Mount("pyro-test", p.state, "tmpfs", 0, "size=900m"); err != nil {
		t.Skip("only root can mount a small disk: ", err)
	}
	defer func() {
		if err := unix.Unmount(p.state, 0); err != nil {
			t.Error(err)
		}
	}()
	id := p.create("--mem-mib", "512")
	defer func() { // the disk is held by whoever has not ended
		supervisor, m := p.processes(id)
		p.must("workspace", "delete", id)
		if err := errors.Join(gone(supervisor), gone(m)); err != nil {
			t.Error(err)
		}
	}()
	p.shell(id, `setsid python3 -c 'import os, time; x = os.urandom(120 << 20); open("/run/filled", "w"); time.sleep(1e9)' >/dev/null 2>&1 </dev/null &
		while ! test -e /run/filled; do sleep 0.1; done; sync`)
	shell := p.openShell(id)
	for _, room := range []uint64{4 << 20, 60 << 20} {
		ballast := filepath.Join(p.state, "ballast")
		leave(t, ballast, room)
		supervisor, m := p.processes(id)
		r := p.run(nil, "workspace", "pause", id, "--json")
		if r.code == 0 || !strings.Contains(r.stdout+r.stderr, "no space left") || !strings.Contains(r.stdout+r.stderr, `"resource_exhausted"`) {
			t.Errorf("with room for %d: %+v", room, r)
		}
		if s, now := p.processes(id); s != supervisor || now != m || p.stateOf(id) != "started" {
			t.Errorf("with room for %d: it is %s", room, p.stateOf(id))
		}
		if left := p.memories(id); len(left) > 0 {
			t.Errorf("with room for %d: left %v", room, left)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		p.must("workspace", "shell", "write", id, shell, "--input", fmt.Sprint("echo room $((", room, "+1))"))
		p.awaitShell(id, shell, fmt.Sprint("room ", room+1))
	}
	p.pause(id)
	p.must("workspace", "shell", "write", id, shell, "--input", "echo back $((6*7))")
	p.awaitShell(id, shell, "back 42")
}

// leave fills the disk that a file is on, so that so many bytes are left.
func leave(t *testing.T, path string, room uint64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := int64(0); ; {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
			t.Fatal(err)
		}
		free := s.Bavail * uint64(s.Bsize)
		if free <= room {
			return
		}
		size := int64(min(free-room, 16<<20))
		if err := unix.Fallocate(int(f.Fd()), 0, at, size); err != nil {
			t.Fatal(err)
		}
		at += size
	}
}

// TestDamagedMemory damages what a machine was saved as, each file in each way. It is refused, and told; put right it goes on, and else its files are there.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--mem-mib", "512")
	p.openShell(id)
	p.shell(id, "echo kept >kept; echo kept >/root/kept; "+counting)
	p.pause(id)
	memory := p.memories(id)[0]
	entries, err := os.ReadDir(memory)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(memory); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can look at it: %v, %v", info, err)
	}
	refused := func(what string) {
		t.Helper()
		r := p.run(nil, "workspace", "resume", id, "--json")
		var said struct {
			Error struct{ Kind, Message, Hint string }
		}
		if json.Unmarshal([]byte(r.stdout+r.stderr), &said) != nil || r.code == 0 || said.Error.Kind != "corrupt" || !strings.Contains(said.Error.Hint, "pyro workspace stop "+id) {
			t.Errorf("%s: %+v", what, r)
		}
		if p.stateOf(id) != "paused" {
			t.Fatalf("%s: it is %s", what, p.stateOf(id))
		}
	}
	for _, e := range entries {
		path := filepath.Join(memory, e.Name())
		info, err := e.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 && e.Name() != "ram" {
			t.Errorf("others can read %s: %v, %v", e.Name(), info, err)
		}
		write := func(content []byte) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			os.Chmod(path, info.Mode().Perm())
		}
		content, err := os.ReadFile(path)
		if err != nil || os.Remove(path) != nil { // it may be a name of what others have, too
			t.Fatal(err)
		}
		refused(e.Name() + " is gone")
		if len(content) > 0 {
			flipped := slices.Clone(content)
			flipped[len(flipped)*2/3] ^= 4
			write(flipped)
			refused(e.Name() + " has another bit")
			write(content[:len(content)/2])
			refused(e.Name() + " is cut")
		}
		write(content)
	}
	last := p.counted(id, "after it was put right")
	p.countsOn(id, last, "after it was put right")
	p.shell(id, "sync")
	p.pause(id)
	flip := filepath.Join(p.memories(id)[0], "standing.json")
	if err := os.WriteFile(flip, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := p.run(nil, "workspace", "exec", id, "--", "true"); r.code != 125 || !strings.Contains(r.stderr, "pyro: hint: pyro workspace stop "+id) {
		t.Errorf("an operation on a damaged one: %+v", r)
	}
	if w := p.object("workspace", "stop", id); w["state"] != "stopped" {
		t.Errorf("%v", w)
	}
	if left := p.memories(id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	p.must("workspace", "start", id)
	if got := p.shell(id, "cat kept; tail -n 1 count"); !strings.HasPrefix(got, "kept\n") {
		t.Errorf("its files say %q", got)
	} else if n, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(got), "kept\n")); n <= last {
		t.Errorf("counted to %d, and to more than %d when it was paused", n, last)
	}
}

// TestKilledWhilePausing kills the client, the supervisor and the machine at moments of pauses, of going on and of live forks, which are drawn from a seed. What was
// acknowledged as paused goes on with all that ran in it; what was not is paused, runs or is stopped, and says which; nothing is left of it.
func TestKilledWhilePausing(t *testing.T) {
	t.Parallel()
	seed := int64(1)
	if s, err := strconv.ParseInt(os.Getenv("PYRO_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("PYRO_TEST_SEED=%d PYRO_TEST_KILLS=%d", seed, kills())
	random := mathrand.New(mathrand.NewSource(seed))
	p := workspaces(t)
	v := &pausing{program: p, id: p.create("--mem-mib", "512")}
	v.anew()
	took := map[string]time.Duration{}
	for _, operation := range []string{"pause", "resume", "fork"} {
		v.prepare(operation)
		began := time.Now()
		p.must(v.args(operation)...)
		took[operation] = time.Since(began)
		v.check(operation, "")
	}
	for range kills() {
		for _, operation := range []string{"pause", "resume", "fork"} {
			for _, who := range []string{"client", "supervisor", "machine"} {
				v.prepare(operation)
				v.kill(operation, who, time.Duration(random.Float64()*1.1*float64(took[operation])))
			}
		}
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // forks whose makers were killed go with the next one, once their machines have ended
		p.must("workspace", "fork", v.id)
		left, err := os.ReadDir(filepath.Join(p.state, "workspaces"))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == len(p.list()) {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("left: %v", left)
		}
	}
}

// pausing is a workspace with a program that holds a word which is nowhere else: it is there as long as its machine is.
type pausing struct {
	*program
	id   string
	word string
	was  string // its state before what is done
}

// anew has a machine that was begun anew hold another word.
func (v *pausing) anew() {
	v.t.Helper()
	v.word = rand.Text()
	v.shell(v.id, "rm -f ask answer; mkfifo ask answer; HELD="+v.word+` setsid sh -c 'exec 3<>ask 4<>answer; while read x <&3; do echo $HELD >&4; done' >/dev/null 2>&1 </dev/null & sleep 0.2`)
}

// alive checks that what ran runs.
func (v *pausing) alive(when string) {
	v.t.Helper()
	if got := v.shell(v.id, "exec 4<>answer; echo >ask; timeout 60 head -n 1 <&4"); got != v.word+"\n" {
		v.t.Fatalf("%s: what ran says %q, not %s", when, got, v.word)
	}
}

func (v *pausing) args(operation string) []string {
	args := []string{"workspace", operation, v.id}
	if operation == "fork" {
		args = append(args, "--live", "--json")
	}
	return args
}

// prepare has the workspace be what an operation is for.
func (v *pausing) prepare(operation string) {
	v.t.Helper()
	if v.stateOf(v.id) == "stopped" {
		v.must("workspace", "start", v.id)
		v.anew()
	}
	if operation == "resume" {
		v.must("workspace", "pause", v.id)
	} else {
		v.must("workspace", "resume", v.id)
	}
	v.was = v.stateOf(v.id)
}

// kill does an operation, and kills somebody after a while.
func (v *pausing) kill(operation, who string, after time.Duration) {
	v.t.Helper()
	supervisor, m, _ := v.find(v.id)
	cmd := v.command(v.args(operation)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	time.Sleep(after)
	if operation == "resume" && who != "client" { // they come while it goes on
		if supervisor = v.supervisorOf(); supervisor != 0 {
			if all := machines(supervisor); len(all) > 0 {
				m = all[0]
			}
		}
	}
	victim := map[string]int{"client": cmd.Process.Pid, "supervisor": supervisor, "machine": m}[who]
	if victim != 0 {
		syscall.Kill(victim, syscall.SIGKILL)
	}
	err := cmd.Wait()
	if who != "client" && victim != 0 {
		if err := gone(victim); err != nil {
			v.t.Fatal(err)
		}
	}
	acknowledged := operation
	if err != nil {
		acknowledged = ""
	}
	v.t.Logf("%s, the %s killed after %s: %v", operation, who, after.Round(time.Millisecond), err)
	v.check(fmt.Sprintf("%s, the %s killed after %s: %v %s", operation, who, after, err, errs.String()), acknowledged+" "+who)
}

// supervisorOf is the process that holds the workspace's lock, be its machine there or not.
func (v *pausing) supervisorOf() int {
	pid, _, _ := v.find(v.id)
	return pid
}

// check checks what the workspace is once what was killed has ended.
func (v *pausing) check(what, acknowledged string) {
	v.t.Helper()
	state := v.settledState()
	switch {
	case strings.HasPrefix(acknowledged, "pause ") && state != "paused":
		v.t.Fatalf("%s: it is %s, and was told to be paused", what, state)
	case strings.HasSuffix(acknowledged, "client") && state == "stopped", state != "paused" && state != "started" && state != "stopped":
		v.t.Fatalf("%s: it is %s", what, state)
	}
	if state != "stopped" {
		v.alive(what) // which has it go on
	}
	for _, w := range v.list() {
		if other := w["workspace_id"].(string); other != v.id {
			if w["state"] == "started" {
				v.shell(other, "test -p ask")
			}
			v.must("workspace", "delete", other)
		}
	}
	v.must("workspace", "start", v.id)
	if state == "stopped" {
		v.anew()
	}
	// Nothing is left of it when it was started once more.
	v.must("workspace", "pause", v.id)
	v.alive(what + ", and paused")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // what was the memory goes beside all else
		left := v.memories(v.id)
		if len(left) == 0 {
			break
		}
		if time.Since(began) > patience {
			v.t.Fatalf("%s: left %v", what, left)
		}
	}
}

// settledState is the workspace's once nothing is under way.
func (v *pausing) settledState() string {
	v.t.Helper()
	for before := ""; ; time.Sleep(200 * time.Millisecond) {
		now := v.stateOf(v.id)
		_, _, running := v.find(v.id)
		if key := fmt.Sprint(now, running); key == before && running == (now == "started") {
			return now
		} else {
			before = key
		}
	}
}
