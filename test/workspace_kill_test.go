//go:build machine

package test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// victim is a workspace whose operations are killed. All its files contain the same number. Each
// operation that changes files changes the number in all of them.
type victim struct {
	*program
	id     string
	number int // number in its files
	next   int
	dir    string
	states map[string]int // number in the files of each snapshot
}

const victimFiles = 20

type operation struct {
	name   string
	args   func(*victim) (args []string, after int)
	starts bool
}

// content returns the content of a file that contains the given number.
func (v *victim) content(number int) string { return fmt.Sprintf("before\n%d\nafter\n", number) }

// folder creates a folder whose files contain the given number.
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

// patch creates a patch that changes one number to another. It returns the path of the patch.
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

// operations lists the operations that are killed. The function args returns an operation's
// arguments, and the number that the files must contain after the operation is acknowledged. If an
// operation starts a machine, the test kills the new machine or its supervisor.
var operations = []operation{
	{name: "sync", args: func(v *victim) ([]string, int) {
		v.next++
		return []string{"sync", "push", v.id, v.folder(v.next)}, v.next
	}},
	{name: "patch", args: func(v *victim) ([]string, int) {
		v.next++
		return []string{"patch", "apply", v.id, "--patch-file", v.patch(v.number, v.next)}, v.next
	}},
	{name: "exec", args: func(v *victim) ([]string, int) {
		return []string{"exec", v.id, "--", "sh", "-c", "cat sub/* | sha256sum"}, v.number
	}},
	{name: "snapshot", args: func(v *victim) ([]string, int) {
		name := fmt.Sprintf("s%d-%d", v.number, len(v.states))
		v.states[name] = v.number
		return []string{"snapshot", "create", v.id, name}, v.number
	}},
	{name: "reset", args: func(v *victim) ([]string, int) {
		return []string{"reset", v.id, "--snapshot", "first"}, v.states["first"]
	}},
	{name: "stop", args: func(v *victim) ([]string, int) { return []string{"stop", v.id}, v.number }},
	{name: "start", starts: true, args: func(v *victim) ([]string, int) {
		v.must("workspace", "stop", v.id)
		return []string{"start", v.id}, v.number
	}},
	{name: "diff", args: func(v *victim) ([]string, int) { return []string{"diff", v.id}, v.number }},
	{name: "fork", args: func(v *victim) ([]string, int) { return []string{"fork", v.id, "--id-only"}, v.number }},
	{name: "create", starts: true, args: func(v *victim) ([]string, int) {
		return []string{"create", environment, "--id-only", "--seed-path", v.folder(v.number)}, v.number
	}},
}

// TestKilledAnywhere kills the client, the supervisor and the machine at random moments of every
// operation. It logs the seed. Afterwards the reported status must be correct, and all files must
// be in the old or in the new state. Acknowledged operations must have succeeded. It must be
// possible to delete everything, and nothing must remain.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t, 1)
	t.Logf("PYRO_TEST_KILLS=%d", kills())
	// Two workspaces are tested in parallel. Each one is for a part of the operations.
	for name, part := range map[string][2]int{"Inside": {0, 5}, "AsAWhole": {5, len(operations)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKills(t, rand.New(rand.NewSource(int64(seed))), part[0], part[1])
		})
	}
}

// testKills tests a part of the operations in a new workspace.
func testKills(t *testing.T, random *rand.Rand, from, to int) {
	v := &victim{program: workspaces(t), dir: t.TempDir(), states: map[string]int{"first": 0}}
	v.id = v.create("--seed-path", v.folder(0))
	v.must("workspace", "snapshot", "create", v.id, "first")
	for i := from; i < to; i++ {
		o := operations[i]
		args, after := o.args(v)
		began := time.Now()
		v.must(append([]string{"workspace"}, args...)...)
		took := time.Since(began)
		v.check(o.name, "nobody", after)
		for range kills() {
			for _, who := range killed(i) {
				drawn(t, o.name+", the "+who, took*11/10, func(within time.Duration) bool {
					return v.kill(o, who, time.Duration(random.Float64()*float64(within)))
				})
			}
		}
	}
	// No snapshot must have changed.
	for name, number := range v.states {
		if r := v.run(nil, "workspace", "reset", v.id, "--snapshot", name); r.code == 0 {
			v.check("reset to "+name, "nobody", number)
		} else if !strings.Contains(r.stderr, "has no snapshot with this name") || name == "first" {
			t.Errorf("snapshot %s: %+v", name, r)
		}
	}
}

// kill runs an operation, kills a process after a delay, and checks the result. It reports whether
// it killed a process.
func (v *victim) kill(o operation, who string, after time.Duration) bool {
	v.t.Helper()
	args, number := o.args(v)
	supervisor, m, _ := v.find(v.id)
	over := v.folders()
	if o.name == "start" {
		over = slices.DeleteFunc(over, func(id string) bool { return id == v.id })
	}
	r := v.interrupt(append([]string{"workspace"}, args...), after, func(client int, ended <-chan struct{}) int {
		switch {
		case who == "client":
			return client
		case o.starts:
			return v.awaitStarting(who, over, ended)
		}
		return victimOf(who, supervisor, m)
	})
	if who != "client" && r.killed && !o.starts {
		if err := gone(supervisor); err != nil {
			v.t.Fatal(err)
		}
	}
	if who == "client" && !r.acknowledged {
		v.quiet()
	}
	what := fmt.Sprintf("%s, the %s killed (%t) after %s: %s", o.name, who, r.killed, after, r.said)
	v.t.Log(strings.TrimSpace(what))
	may := []int{number}
	if !r.acknowledged {
		if may = append(may, v.number); o.name == "snapshot" {
			v.forgetIfMissing(args[len(args)-1])
		}
	}
	v.check(what, who, may...)
	if o.name == "fork" || o.name == "create" {
		v.made(what, who, over, strings.TrimSpace(r.out), r.acknowledged)
	}
	if o.name == "create" {
		v.awaitNoPartialWorkspaces("create", environment)
	}
	return r.killed
}

// made checks a workspace whose creation was interrupted. If the creation was acknowledged, the
// workspace must exist but can be stopped. Otherwise it can be missing. A workspace that exists
// must have all files, and it must be possible to delete it.
func (v *victim) made(what, who string, before []string, id string, acknowledged bool) {
	v.t.Helper()
	var made []string
	for _, w := range v.list() {
		if one := w["workspace_id"].(string); !slices.Contains(before, one) {
			made = append(made, one)
		}
	}
	if len(made) > 1 || acknowledged && !slices.Equal(made, []string{id}) {
		v.t.Fatalf("%s: made are %v", what, made)
	}
	for _, one := range made {
		if state := v.finalState(one); state != "started" && state != "stopped" {
			v.t.Errorf("%s: it is %s", what, state)
		}
		if got := v.startedShell(one, who, "cat sub/* | grep -cx "+strconv.Itoa(v.number)); got != fmt.Sprintln(victimFiles) {
			v.t.Errorf("%s: so many of its files are right: %s", what, got)
		}
		v.must("workspace", "delete", one)
	}
}

// quiet waits until all operations that a killed client has started are finished.
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

// forgetIfMissing removes a snapshot from states, unless the snapshot exists. It is for snapshots
// that were not acknowledged.
func (v *victim) forgetIfMissing(name string) {
	if !strings.Contains(v.must("workspace", "snapshot", "list", v.id), name+" ") {
		delete(v.states, name)
	}
}

// check starts the workspace if it is stopped. It checks the files of the workspace and records the
// number in them.
func (v *victim) check(what, who string, may ...int) {
	v.t.Helper()
	state := v.finalState(v.id)
	if who == "nobody" && state == "damaged" || state == "created" {
		v.t.Fatalf("%s: it is %s", what, state)
	}
	said := strings.TrimSpace(v.startedShell(v.id, who, "cat sub/* | sort | uniq -c | sort -n"))
	for _, number := range may {
		if want := strings.Fields(fmt.Sprintf("%d %d %d after %d before", victimFiles, number, victimFiles, victimFiles)); strings.Join(strings.Fields(said), " ") == strings.Join(want, " ") {
			v.number = number
			return
		}
	}
	v.t.Fatalf("%s: the files say\n%s\nnot one of %v", what, said, may)
}

// startedShell starts a workspace and returns the output of a shell command in it. If the machine
// was killed, the supervisor might not know it yet, and then the start has no effect. So the
// command can fail once.
func (v *victim) startedShell(id, killed, line string) string {
	v.t.Helper()
	v.must("workspace", "start", id)
	if killed == "machine" && v.run(nil, "workspace", "exec", id, "--", "true").code == 125 {
		v.must("workspace", "start", id)
	}
	return v.shell(id, line)
}

// finalState returns the state of a workspace after the killed processes have ended. If the machine
// of the workspace runs, the state is "started".
func (p *program) finalState(id string) string {
	p.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		state := p.stateOf(id)
		_, _, running := p.find(id)
		if running == (state == "started") {
			return state
		}
		if time.Since(began) > patience {
			p.t.Fatalf("%s is %s, and that it runs is %t", id, state, running)
		}
	}
}

// TestConflictingOperations runs conflicting operations of two clients concurrently. Each operation
// must succeed completely, or fail with a reason.
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
	r := p.start("workspace", "exec", id, "--timeout-seconds=1000", "--", "sh", "-c", "echo ready; sleep 1000")
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
	p.fails(3, "has this ID", "workspace", "status", id)
}

// TestManyWorkspaces checks that the use of resources does not grow if workspaces are created and
// deleted repeatedly.
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
