//go:build machine

package test

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// victim is a workspace that operations are killed in. Its files all say the same number: an operation that changes it changes all of them.
type victim struct {
	*program
	id     string
	number int // that its files say
	next   int
	dir    string
	states map[string]int // its snapshots
}

const victimFiles = 20

// content is what the files of a number say.
func (v *victim) content(number int) string { return fmt.Sprintf("before\n%d\nafter\n", number) }

// push makes a folder with the files of a number.
func (v *victim) folder(number int) string {
	dir := filepath.Join(v.dir, strconv.Itoa(number))
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		v.t.Fatal(err)
	}
	for i := range victimFiles {
		if err := os.WriteFile(filepath.Join(dir, "sub", fmt.Sprint("f", i)), []byte(v.content(number)), 0o644); err != nil {
			v.t.Fatal(err)
		}
	}
	return dir
}

// patch makes a patch from one number to another.
func (v *victim) patch(from, to int) string {
	var b strings.Builder
	for i := range victimFiles {
		fmt.Fprintf(&b, "--- a/sub/f%d\n+++ b/sub/f%d\n@@ -1,3 +1,3 @@\n before\n-%d\n+%d\n after\n", i, i, from, to)
	}
	path := filepath.Join(v.dir, fmt.Sprintf("%d-%d.patch", from, to))
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		v.t.Fatal(err)
	}
	return path
}

// operations are what is killed: each gives its arguments, and what the workspace may say afterwards if it was acknowledged.
var operations = []struct {
	name string
	args func(*victim) (args []string, after int)
}{
	{"sync", func(v *victim) ([]string, int) {
		v.next++
		return []string{"sync", "push", v.id, v.folder(v.next)}, v.next
	}},
	{"patch", func(v *victim) ([]string, int) {
		v.next++
		return []string{"patch", "apply", v.id, "--patch-file", v.patch(v.number, v.next)}, v.next
	}},
	{"exec", func(v *victim) ([]string, int) {
		return []string{"exec", v.id, "--", "sh", "-c", "cat sub/* | sha256sum"}, v.number
	}},
	{"snapshot", func(v *victim) ([]string, int) {
		name := fmt.Sprintf("s%d-%d", v.number, len(v.states))
		v.states[name] = v.number
		return []string{"snapshot", "create", v.id, name}, v.number
	}},
	{"reset", func(v *victim) ([]string, int) {
		return []string{"reset", v.id, "--snapshot", "first"}, v.states["first"]
	}},
	{"stop", func(v *victim) ([]string, int) { return []string{"stop", v.id}, v.number }},
	{"start", func(v *victim) ([]string, int) {
		v.must("workspace", "stop", v.id)
		return []string{"start", v.id}, v.number
	}},
	{"diff", func(v *victim) ([]string, int) { return []string{"diff", v.id}, v.number }},
	{"fork", func(v *victim) ([]string, int) { return []string{"fork", v.id}, v.number }},
	{"create", func(v *victim) ([]string, int) {
		return []string{"create", environment, "--seed-path", v.folder(v.number)}, v.number
	}},
}

// TestKilledAnywhere kills the client, the supervisor and the machine at moments of every operation. The moments are drawn from a seed that is told. Afterwards status
// tells the truth, the files are those of before or of after the operation, all of them, and of after it where it was acknowledged; what was acknowledged
// before is there; and in the end everything can be deleted, and nothing is left.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	seed := int64(1)
	if s, err := strconv.ParseInt(os.Getenv("PYRO_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("PYRO_TEST_SEED=%d PYRO_TEST_KILLS=%d", seed, kills())
	random := rand.New(rand.NewSource(seed))
	v := &victim{program: workspaces(t), dir: t.TempDir(), states: map[string]int{"first": 0}}
	v.id = v.create("--seed-path", v.folder(0))
	v.must("workspace", "snapshot", "create", v.id, "first")
	for _, o := range operations {
		args, after := o.args(v)
		began := time.Now()
		v.must(append([]string{"workspace"}, args...)...)
		took := time.Since(began)
		v.check(o.name, "nobody", after)
		for range kills() {
			for _, who := range killed() {
				args, after := o.args(v)
				v.kill(o.name, who, time.Duration(random.Float64()*1.1*float64(took)), args, after)
			}
		}
	}
	// Each snapshot that is there is what it was when it was taken.
	for name, number := range v.states {
		if r := v.run(nil, "workspace", "reset", v.id, "--snapshot", name); r.code == 0 {
			v.check("reset to "+name, "nobody", number)
		} else if !strings.Contains(r.stderr, "has none of this name") || name == "first" {
			t.Errorf("snapshot %s: %+v", name, r)
		}
	}
}

// kill runs an operation, kills somebody after a while, and checks what there is then.
func (v *victim) kill(operation, who string, after time.Duration, args []string, number int) {
	v.t.Helper()
	supervisor, pid, running := v.find(v.id)
	if who != "client" && !running {
		v.must("workspace", "start", v.id) // nobody is there to be killed
		return
	}
	if who == "supervisor" {
		pid = supervisor
	}
	cmd := v.command(append([]string{"workspace"}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	if who == "client" {
		pid = cmd.Process.Pid
	}
	killed := make(chan struct{})
	timer := time.AfterFunc(after, func() { syscall.Kill(pid, syscall.SIGKILL); close(killed) })
	err := cmd.Wait()
	if timer.Stop() {
		syscall.Kill(pid, syscall.SIGKILL)
	} else {
		<-killed
	}
	if who != "client" {
		if err := errors.Join(gone(pid), gone(supervisor)); err != nil {
			v.t.Fatal(err)
		}
	}
	if who == "client" && err != nil {
		v.quiet()
	}
	what := fmt.Sprintf("%s, the %s killed after %s: %v %s", operation, who, after, err, errs.String())
	if err == nil {
		v.check(what, who, number)
		return
	}
	if name := args[len(args)-1]; operation == "snapshot" {
		v.forgetUnless(name)
	}
	v.check(what, who, v.number, number)
}

// quiet waits until what a client had begun before it was killed has happened, or not.
func (v *victim) quiet() {
	v.t.Helper()
	said := func() string {
		v.must("workspace", "start", v.id)
		r := v.run(nil, "workspace", "exec", v.id, "--", "sh", "-c", "cat sub/* | sort | uniq -c; ls -A /workspace")
		return fmt.Sprint(r.code, r.stdout)
	}
	for before := said(); ; {
		time.Sleep(200 * time.Millisecond)
		now := said()
		if now == before && now[0] == '0' {
			return
		}
		before = now
	}
}

// forgetUnless forgets a snapshot that was not acknowledged and is not there.
func (v *victim) forgetUnless(name string) {
	if !strings.Contains(v.must("workspace", "snapshot", "list", v.id), name+" ") {
		delete(v.states, name)
	}
}

// check checks what the workspace is, having started it where it is stopped, and notes what its files say.
func (v *victim) check(what, who string, may ...int) {
	v.t.Helper()
	state := v.settled()
	if who == "nobody" && state == "damaged" || state == "created" {
		v.t.Fatalf("%s: it is %s", what, state)
	}
	v.must("workspace", "start", v.id)
	said := strings.TrimSpace(v.shell(v.id, "cat sub/* | sort | uniq -c | sort -n"))
	for _, number := range may {
		if want := strings.Fields(fmt.Sprintf("%d %d %d after %d before", victimFiles, number, victimFiles, victimFiles)); strings.Join(strings.Fields(said), " ") == strings.Join(want, " ") {
			v.number = number
			return
		}
	}
	v.t.Fatalf("%s: the files say\n%s\nnot one of %v", what, said, may)
}

// settled gives the state of the workspace once what was killed has ended.
func (v *victim) settled() string {
	v.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		w := v.object("workspace", "status", v.id)
		_, _, running := v.find(v.id)
		if state := w["state"].(string); running == (state == "started") || time.Since(began) > 10*time.Second {
			return state
		}
	}
}

// find gives the processes of a workspace.
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

// TestConflictingOperations has two clients do at once what excludes each other: each does it wholly, or is told why not.
func TestConflictingOperations(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t))
	p.must("workspace", "snapshot", "create", id, "mine")
	together := func(calls ...[]string) (results []result) {
		results = make([]result, len(calls))
		var all sync.WaitGroup
		for i, c := range calls {
			cmd := p.command(append([]string{"workspace"}, c...)...)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			all.Go(func() {
				cmd.Run()
				results[i] = result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
			})
		}
		all.Wait()
		return results
	}
	for _, r := range together([]string{"reset", id}, []string{"reset", id, "--snapshot", "mine"}) {
		if r.code != 0 {
			t.Errorf("two resets: %+v", r)
		}
	}
	if w := p.object("workspace", "status", id); w["reset_count"].(float64) != 2 || w["state"] != "started" {
		t.Errorf("after two resets: %v", w)
	}
	r := p.start("workspace", "exec", id, "--timeout-seconds=60", "--", "sh", "-c", "echo ready; sleep 30")
	r.says("ready")
	p.must("workspace", "reset", id)
	if end := r.end(); end.code == 0 {
		t.Errorf("a reset during a command: %+v", end)
	}
	for _, r := range together([]string{"stop", id}, []string{"start", id}, []string{"stop", id}) {
		if r.code != 0 {
			t.Errorf("stop and start: %+v", r)
		}
	}
	p.must("workspace", "start", id)
	all := together([]string{"snapshot", "create", id, "late"}, []string{"delete", id})
	if all[1].code != 0 || all[0].code != 0 && !strings.Contains(all[0].stderr, "pyro: error: ") {
		t.Errorf("a snapshot during a deletion: %+v", all)
	}
	p.fails(3, "there is none of this id", "workspace", "status", id)
}

// TestManyWorkspaces makes and deletes workspaces: nothing grows.
func TestManyWorkspaces(t *testing.T) {
	sameForAll(t)
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("PYRO_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	p := workspaces(t)
	measure := func() (files int, database int64) {
		filepath.WalkDir(p.state, func(string, os.DirEntry, error) error { files++; return nil })
		info, err := os.Stat(filepath.Join(p.state, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		return files, info.Size()
	}
	round := func() {
		id := p.create()
		p.shell(id, "echo x >x")
		p.must("workspace", "delete", id)
	}
	for range 3 {
		round()
	}
	files, database := measure()
	for range rounds {
		round()
	}
	if f, d := measure(); f > files || d > database+64<<10 {
		t.Errorf("after %d rounds %d files and a database of %d bytes; %d and %d before", rounds, f, d, files, database)
	}
}
