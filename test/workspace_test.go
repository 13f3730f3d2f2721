//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// workspaces returns a program. At the end of the test, it deletes the program's workspaces and
// checks that none of their files remain.
func workspaces(t *testing.T) *program {
	t.Helper()
	p := newProgram(t)
	t.Cleanup(p.deleteAll)
	return p
}

// deleteAll deletes all workspaces, and checks that they leave no files.
func (p *program) deleteAll() {
	for _, w := range p.list() {
		p.must("workspace", "delete", w["workspace_id"].(string))
	}
	for _, dir := range []string{"workspaces", "machines"} {
		if left, _ := os.ReadDir(filepath.Join(p.state, dir)); len(left) > 0 {
			p.t.Errorf("left in %s: %v", dir, left)
		}
	}
}

// must runs pyro and returns the output. If pyro fails, the test fails.
func (p *program) must(args ...string) string {
	p.t.Helper()
	r := p.run(nil, args...)
	if r.code != 0 {
		p.t.Fatalf("pyro %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// fails runs pyro and checks that it fails with the given exit code and message.
func (p *program) fails(code int, says string, args ...string) {
	p.t.Helper()
	if r := p.run(nil, args...); r.code != code || !strings.Contains(r.stderr, says) {
		p.t.Errorf("pyro %s: exit code %d, not %d, or not %q:\n%s%s", strings.Join(args, " "), r.code, code, says, r.stdout, r.stderr)
	}
}

// object runs pyro with --json and returns the decoded result.
func (p *program) object(args ...string) map[string]any {
	p.t.Helper()
	var v map[string]any
	if out := p.must(append(args, "--json")...); json.Unmarshal([]byte(out), &v) != nil {
		p.t.Fatalf("not one JSON object: %s", out)
	}
	return v
}

func (p *program) list() []map[string]any {
	p.t.Helper()
	var v struct{ Workspaces []map[string]any }
	if err := json.Unmarshal([]byte(p.must("workspace", "list", "--json")), &v); err != nil {
		p.t.Fatal(err)
	}
	return v.Workspaces
}

// create creates a workspace and returns its id.
func (p *program) create(args ...string) string {
	p.t.Helper()
	return strings.TrimSpace(p.must(append([]string{"workspace", "create", environment, "--id-only"}, args...)...))
}

// shell runs a line in a workspace and returns the output. If the line fails, the test fails.
func (p *program) shell(id, line string) string {
	p.t.Helper()
	return p.must("workspace", "exec", id, fmt.Sprintf("--timeout-seconds=%.0f", testenv.Patience.Seconds()), "--", "sh", "-c", line)
}

// tree creates a folder that can be the seed of a workspace.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `set -e; cd "$1"; mkdir -p src/deep/er empty "name with  spaces and ünïcödé"
printf 'one\ntwo\nthree\n' >src/a.txt; printf 'no newline' >"name with  spaces and ünïcödé/b"; head -c 100000 /dev/urandom >blob
printf '#!/bin/sh\necho ran\n' >src/run.sh; chmod 755 src/run.sh; chmod 600 src/deep/../a.txt; ln -s a.txt src/link; ln -s /nowhere broken
long=$(printf 'x%.0s' $(seq 200)); echo long >"$long"; mkfifo pipe; printf 'a\r\nb\r\n' >crlf; ln src/a.txt src/hard`
	if out, err := exec.Command("bash", "-c", script, "-", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// listing prints the types, modes, contents and link targets of the files in a folder. It runs on
// the host or in a machine.
const listing = `LC_ALL=C find . -mindepth 1 ! -type p -printf '%P %y %m %l\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort -k 2`

func listed(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", listing)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestWorkspace covers the whole life of a workspace.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	seed := tree(t)
	w := p.object("workspace", "create", environment, "--seed-path", seed, "--name", "fix", "--label", "ticket=42")
	id := w["workspace_id"].(string)
	if w["state"] != "started" || w["name"] != "fix" || w["workspace_path"] != "/workspace" || w["workspace_seed"].(map[string]any)["skipped"].(float64) != 1 {
		t.Errorf("created: %v", w)
	}
	if got, want := p.shell(id, listing), listed(t, seed); got != want {
		t.Errorf("the seed became\n%s\nnot\n%s", got, want)
	}
	if got := p.shell(id, `pwd; id -u; find . ! -user 0 | wc -l; sh src/run.sh; hostname; echo $PYRO_WORKSPACE`); got != "/workspace\n0\n0\nran\n"+id+"\n/workspace\n" {
		t.Errorf("inside: %q", got)
	}

	// The state must persist after commands, a stop and a start.
	p.shell(id, `echo more >>src/a.txt; echo kept >/root/kept; chmod 700 src/run.sh; rm crlf; ln -sf b.txt src/link; head -c 5 /dev/urandom >new.bin; mkdir d; touch d/e`)
	before := p.shell(id, listing)
	if w := p.object("workspace", "stop", id); w["state"] != "stopped" || w["state_reason"] != "it was stopped" || w["expires_at"] != nil {
		t.Errorf("stopped: %v", w)
	}
	p.fails(125, "it is stopped", "workspace", "exec", id, "--", "true")
	if w := p.object("workspace", "start", id); w["state"] != "started" {
		t.Errorf("started: %v", w)
	}
	if got := p.shell(id, listing); got != before {
		t.Errorf("after a stop and a start:\n%s\nnot\n%s", got, before)
	}
	if got := p.shell(id, "cat /root/kept"); got != "kept\n" {
		t.Errorf("the root was lost: %q", got)
	}

	// The diff must be equal to the diff that git makes.
	d := p.object("workspace", "diff", id)
	summary := d["summary"].(map[string]any)
	if fmt.Sprint(summary["added"], summary["modified"], summary["deleted"]) != "3 4 1" {
		t.Errorf("diff: %v %v", summary, d["entries"])
	}
	out := filepath.Join(t.TempDir(), "out")
	p.must("workspace", "export", id, "/workspace", "--output", out)
	if got := strings.ReplaceAll(listed(t, out), "", ""); got != before {
		t.Errorf("exported:\n%s\nnot\n%s", got, before)
	}
	applied(t, seed, d["patch"].(string), out)

	// Check the history.
	logs := p.object("workspace", "logs", id)
	if n := logs["count"].(float64); n != 6 {
		t.Errorf("%v commands", n)
	}

	// A reset must restore the baseline with a new root file system, and clear the history.
	p.must("workspace", "snapshot", "create", id, "mine")
	w = p.object("workspace", "reset", id)
	if w["reset_count"].(float64) != 1 || w["last_reset_at"] == nil || w["command_count"].(float64) != 0 || w["name"] != "fix" || w["state"] != "started" {
		t.Errorf("reset: %v", w)
	}
	if got, want := p.shell(id, listing), listed(t, seed); got != want {
		t.Errorf("reset to\n%s\nnot\n%s", got, want)
	}
	if got := p.shell(id, "ls /root/kept 2>&1 || true"); !strings.Contains(got, "No such file") {
		t.Errorf("the root is the old one: %q", got)
	}
	if d := p.object("workspace", "diff", id); d["changed"] != false {
		t.Errorf("after a reset: %v", d["entries"])
	}
	p.must("workspace", "reset", id, "--snapshot", "mine")
	if got := p.shell(id, listing); got != before {
		t.Errorf("reset to a snapshot:\n%s\nnot\n%s", got, before)
	}
	if d2 := p.object("workspace", "diff", id); fmt.Sprint(d2["entries"]) != fmt.Sprint(d["entries"]) || d2["patch"] != d["patch"] {
		t.Errorf("diffs of the same files differ:\n%v\n%v", d2["entries"], d["entries"])
	}
	p.fails(3, "no snapshot with this name", "workspace", "reset", id, "--snapshot", "other")
	p.fails(2, "reserved", "workspace", "snapshot", "create", id, "baseline")
	p.fails(4, "with this name", "workspace", "snapshot", "create", id, "mine")
}

// applied checks that git creates the tree want from the tree base and a patch. It ignores
// properties that git does not represent.
func applied(t *testing.T, base, patch, want string) {
	t.Helper()
	dir := t.TempDir()
	script := `set -e; cp -a "$1/." "$2"; cd "$2"; rm -f pipe; git -c init.defaultBranch=main init -q .; git apply --whitespace=nowarn - && rm -rf .git`
	cmd := exec.Command("bash", "-c", script, "-", base, dir)
	cmd.Stdin = strings.NewReader(patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
	}
	list := `LC_ALL=C find . ! -type d ! -type p -printf '%P %y %l\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort -k 2; find . -type f -perm -u+x | LC_ALL=C sort`
	var got [2]string
	for i, d := range []string{dir, want} {
		cmd := exec.Command("bash", "-c", list)
		cmd.Dir = d
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got[i] = string(out)
	}
	if got[0] != got[1] {
		t.Errorf("git apply: got\n%s\nwant\n%s", got[0], got[1])
	}
}

func TestWorkspaceExec(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	if r := p.run(strings.NewReader("from the host"), "workspace", "exec", id, "--", "tr", "a-z", "A-Z"); r.stdout != "FROM THE HOST" || r.code != 0 {
		t.Errorf("%+v", r)
	}
	if r := p.run(nil, "workspace", "exec", id, "--", "sh", "-c", "echo out; echo err >&2; exit 7"); r.code != 7 || r.stdout != "out\n" ||
		!strings.HasPrefix(r.stderr, "err\n[workspace-exec] workspace_id="+id+" sequence=2 cwd=/workspace execution_mode=guest exit_code=7") {
		t.Errorf("%+v", r)
	}
	began := time.Now()
	r := p.run(nil, "workspace", "exec", id, "--timeout-seconds=1", "--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & sleep 1000")
	if r.code != 124 || !strings.Contains(r.stderr, "the command timed out after 1 s") || time.Since(began) > testenv.Patience {
		t.Errorf("%+v", r)
	}
	if got := p.shell(id, "pgrep sleep || echo none"); got != "none\n" {
		t.Errorf("the time-out left %q", got)
	}
	if r := p.run(nil, "workspace", "exec", id, "--", "no-such-program"); r.code != 127 {
		t.Errorf("%+v", r)
	}
	p.fails(125, "has this ID", "workspace", "exec", "ws-000000000000", "--", "true")

	// Several commands run concurrently.
	var all []*running
	for i := range 8 {
		all = append(all, p.start("workspace", "exec", id, "--", "sh", "-c", fmt.Sprintf("sleep 0.3; echo %d", i)))
	}
	for i, r := range all {
		if end := r.end(); end.code != 0 || end.stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf("%+v", end)
		}
	}

	// If the client is killed, the command must be killed.
	r2 := p.start("workspace", "exec", id, "--timeout-seconds=1000", "--", "sh", "-c", "echo ready; sleep 1000")
	r2.says("ready")
	r2.Process.Kill()
	r2.end()
	testenv.Eventually(t, "the command ends after its caller", func() bool { return p.shell(id, "pgrep sleep || echo none") == "none\n" })

	// Long output must arrive completely. A part of it must be stored.
	if r := p.run(nil, "workspace", "exec", id, "--", "seq", "1000000"); len(r.stdout) != 6888896 || !strings.HasSuffix(r.stdout, "\n1000000\n") {
		t.Errorf("%d bytes of output", len(r.stdout))
	}
	logs := p.object("workspace", "logs", id)["entries"].([]any)
	last := logs[len(logs)-1].(map[string]any)
	if last["stdout_truncated"] != true || last["stdout_bytes"].(float64) != 6888896 || !strings.Contains(last["stdout"].(string), "bytes are not kept") || len(last["stdout"].(string)) > 70<<10 {
		t.Errorf("kept: %v", last["stdout_bytes"])
	}
}

func TestWorkspaceFiles(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t))
	p.must("workspace", "file", "write", id, "made/by/pyro.txt", "--text", "häßlich\n")
	p.shell(id, "chmod 640 made/by/pyro.txt")
	p.must("workspace", "file", "write", id, "/workspace/made/by/pyro.txt", "--text", "again\n")
	if got := p.shell(id, "stat -c '%a %U' made/by/pyro.txt; cat made/by/pyro.txt"); got != "640 root\nagain\n" {
		t.Errorf("written: %q", got)
	}
	f := p.object("workspace", "file", "read", id, "src/a.txt", "--max-bytes", "5")
	if f["content"] != "one\nt" || f["truncated"] != true || f["size_bytes"].(float64) != 14 || f["path"] != "/workspace/src/a.txt" {
		t.Errorf("read: %v", f)
	}
	p.fails(5, "not a text file", "workspace", "file", "read", id, "blob")
	p.fails(3, "", "workspace", "file", "read", id, "missing")
	p.fails(2, "not below /workspace", "workspace", "file", "read", id, "../etc/passwd")
	p.fails(2, "not below /workspace", "workspace", "file", "write", id, "/etc/passwd", "--text", "x")
	p.shell(id, "ln -s /etc etc; ln -s ../../etc up; ln -s /etc/passwd passwd; ln -s src/a.txt inner")
	for _, path := range []string{"etc/passwd", "up/passwd", "passwd"} {
		p.fails(6, "", "workspace", "file", "read", id, path)
	}
	if r := p.run(nil, "workspace", "file", "write", id, "etc/new", "--text", "x"); r.code == 0 {
		t.Errorf("a write followed a link: %+v", r)
	}
	if got := p.shell(id, "ls /etc/new 2>/dev/null; cat passwd | head -1"); !strings.HasPrefix(got, "root:") {
		t.Errorf("a link was followed out: %q", got)
	}
	if got := p.must("workspace", "file", "read", id, "inner"); got != "one\ntwo\nthree\n" {
		t.Errorf("by a link inside: %q", got)
	}
	l := p.object("workspace", "file", "list", id, "src", "--recursive")
	var names []string
	for _, e := range l["entries"].([]any) {
		names = append(names, e.(map[string]any)["path"].(string))
	}
	if want := []string{"/workspace/src/a.txt", "/workspace/src/deep", "/workspace/src/deep/er", "/workspace/src/hard", "/workspace/src/link", "/workspace/src/run.sh"}; !slices.Equal(names, want) {
		t.Errorf("listed: %v", names)
	}

	// Push a folder.
	more := t.TempDir()
	os.MkdirAll(filepath.Join(more, "sub"), 0o755)
	os.WriteFile(filepath.Join(more, "sub", "x"), []byte("pushed"), 0o640)
	s := p.object("workspace", "sync", "push", id, more, "--dest", "into")
	if s["files"].(float64) != 1 || s["dest"] != "/workspace/into" {
		t.Errorf("pushed: %v", s)
	}
	if got := p.shell(id, "cat into/sub/x; stat -c %a into/sub/x"); got != "pushed640\n" {
		t.Errorf("pushed: %q", got)
	}
	// A second push copies nothing, unless a program has changed the file. Emulated machines have
	// their files in blocks, which the host does not compare.
	present := 1.0
	if emulated() {
		present = 0
	}
	inode := p.shell(id, "stat -c %i into/sub/x")
	if s := p.object("workspace", "sync", "push", id, more, "--dest", "into"); s["files"] != 1.0 || s["unchanged"] != present || s["replaced"] != 1-present {
		t.Errorf("pushed again: %v", s)
	}
	if now := p.shell(id, "stat -c %i into/sub/x"); (now == inode) != (present == 1) {
		t.Errorf("the file had the inode %q, and has %q", inode, now)
	}
	p.shell(id, "cp -p into/sub/x /tmp/x; printf PUSHED >into/sub/x; touch -r /tmp/x into/sub/x")
	if s := p.object("workspace", "sync", "push", id, more, "--dest", "into"); s["unchanged"] != 0.0 || s["replaced"] != 1.0 {
		t.Errorf("pushed over other content of the same size and time: %v", s)
	}
	if got := p.shell(id, "cat into/sub/x"); got != "pushed" {
		t.Errorf("pushed: %q", got)
	}
	before := p.shell(id, listing)
	evil := filepath.Join(t.TempDir(), "evil.tar")
	tar := exec.Command("bash", "-c", `echo good >good && echo bad >bad && tar cf "$1" good && tar rf "$1" --transform 's,^,../../,' -P bad`, "-", evil)
	tar.Dir = t.TempDir()
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.fails(2, "../../bad", "workspace", "sync", "push", id, evil)
	os.WriteFile(filepath.Join(more, "src"), []byte("a file where a folder is"), 0o644)
	if r := p.run(nil, "workspace", "sync", "push", id, more); r.code == 0 || !strings.Contains(r.stderr, "src") {
		t.Errorf("%+v", r)
	}
	if got := p.shell(id, listing); got != before {
		t.Errorf("a failed patch changed the files: got\n%s\nwant\n%s", got, before)
	}

	// Export files.
	out := filepath.Join(t.TempDir(), "a.txt")
	p.must("workspace", "export", id, "src/a.txt", "--output", out)
	p.fails(4, "", "workspace", "export", id, "src/a.txt", "--output", out)
	p.fails(5, "it exists and is not a folder", "workspace", "export", id, "made", "--output", out, "--force")
	p.must("workspace", "export", id, "made/by/pyro.txt", "--output", out, "--force")
	if b, _ := os.ReadFile(out); string(b) != "again\n" {
		t.Errorf("exported %q", b)
	}

	// Apply patches.
	good := "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
	a := p.object("workspace", "patch", "apply", id, "--patch", good)
	if a["changed"] != true {
		t.Errorf("patched: %v", a)
	}
	before = p.shell(id, listing)
	two := "--- a/made/by/pyro.txt\n+++ b/made/by/pyro.txt\n@@ -1 +1 @@\n-again\n+never\n" + good
	p.fails(5, "src/a.txt", "workspace", "patch", "apply", id, "--patch", two)
	if got := p.shell(id, listing); got != before {
		t.Errorf("a patch that did not fit changed something:\n%s\nnot\n%s", got, before)
	}
	if got := p.shell(id, "cat src/a.txt"); got != "one\nzwei\nthree\n" {
		t.Errorf("patched: %q", got)
	}
}

// TestWorkspaceDisk inspects the disk of a stopped workspace.
func TestWorkspaceDisk(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--seed-path", tree(t))
	p.fails(5, "it runs", "workspace", "disk", "list", id)
	p.shell(id, `echo changed >/etc/motd; rm /etc/issue; mkdir -m 700 /root/made; ln -s motd /etc/link; echo new >>src/a.txt; chown 7:8 src/a.txt; head -c 3000000 /dev/zero >zeros; echo end >>zeros`)
	want := p.shell(id, listing)
	p.must("workspace", "stop", id)
	if got := p.must("workspace", "disk", "read", id, "/etc/motd"); got != "changed\n" {
		t.Errorf("the root: %q", got)
	}
	if got := p.must("workspace", "disk", "read", id, "src/a.txt"); got != "one\ntwo\nthree\nnew\n" {
		t.Errorf("the workspace: %q", got)
	}
	p.fails(3, "", "workspace", "disk", "read", id, "/etc/issue")
	p.fails(5, "symbolic link", "workspace", "disk", "read", id, "/etc/link")
	p.fails(5, "not a text file", "workspace", "disk", "read", id, "blob")
	var names []string
	for _, e := range p.object("workspace", "disk", "list", id)["entries"].([]any) {
		names = append(names, strings.TrimPrefix(e.(map[string]any)["path"].(string), "/workspace/"))
	}
	if want := []string{"blob", "broken", "crlf", "empty", "name with  spaces and ünïcödé", "src", strings.Repeat("x", 200), "zeros"}; !slices.Equal(names, want) {
		t.Errorf("listed: %q", names)
	}

	// The exported disk must be an ordinary file system.
	image := filepath.Join(t.TempDir(), "disk.ext4")
	e := p.object("workspace", "disk", "export", id, "--output", image)
	if e["disk_format"] != "ext4" || e["size_bytes"].(float64) != 16<<30 || e["allocated_bytes"].(float64) > 2<<30 {
		t.Errorf("exported: %v", e)
	}
	p.fails(4, "it already exists", "workspace", "disk", "export", id, "--output", image)
	if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", image).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v: %s", err, out)
	}
	out := t.TempDir()
	for _, script := range []string{"rdump /workspace " + out, "rdump /etc " + out} {
		if text, err := exec.Command("/usr/sbin/debugfs", "-R", script, image).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(out, "etc", "motd")); string(b) != "changed\n" {
		t.Errorf("exported root: %q", b)
	}
	if got := listed(t, filepath.Join(out, "workspace")); got != want {
		t.Errorf("exported:\n%s\nnot\n%s", got, want)
	}
	p.must("workspace", "start", id)
	if got := p.shell(id, "cat /etc/motd; stat -c %u:%g src/a.txt"); got != "changed\n7:8\n" {
		t.Errorf("after the export: %q", got)
	}
}

// TestDeadMachineIsReported kills the processes of a workspace and checks the reported state.
func TestDeadMachineIsReported(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	for _, victim := range []string{"supervisor", "machine"} {
		p.shell(id, "echo "+victim+" >>kept; sync")
		r := p.start("workspace", "exec", id, "--timeout-seconds=1000", "--", "sh", "-c", "echo ready; sleep 1000")
		r.says("ready")
		supervisor, m := p.processes(id)
		processes := append(children(supervisor), supervisor) // also the gofer
		pid, reason := supervisor, "its supervisor was killed"
		if victim == "machine" {
			pid, reason = m, "was killed by signal 9"
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if end := r.end(); end.code != 125 || !strings.Contains(end.stderr, "pyro: error: ") {
			t.Errorf("%s: %+v", victim, end)
		}
		for _, pid := range processes {
			if err := gone(pid); err != nil {
				t.Errorf("%s: %v", victim, err)
			}
		}
		w := p.object("workspace", "status", id)
		if w["state"] != "stopped" || !strings.Contains(w["state_reason"].(string), reason) {
			t.Errorf("%s: %v", victim, w)
		}
		p.must("workspace", "start", id)
	}
	if got := p.shell(id, "cat kept"); got != "supervisor\nmachine\n" {
		t.Errorf("kept: %q", got)
	}
	logs := p.object("workspace", "logs", id)["entries"].([]any)
	if len(logs) != 5 {
		t.Fatalf("the history has %d commands, want 5: %v", len(logs), logs)
	}
	for i, broken := range []bool{false, true, false, true, false} {
		if e := logs[i].(map[string]any); (e["exit_code"] == nil) != broken {
			t.Errorf("command %d: %v", i, e)
		}
	}
}

// TestTimeToLive checks that an expired workspace is stopped but not deleted.
func TestTimeToLive(t *testing.T) {
	sameForAll(t)
	t.Parallel()
	p := workspaces(t)
	id := p.create("--ttl-seconds=3600")
	var expires time.Time
	for range 3 { // activity extends the time to live
		p.shell(id, "echo kept >kept")
		w := p.object("workspace", "status", id)
		next, err := time.Parse(time.RFC3339, fmt.Sprint(w["expires_at"]))
		if err != nil || w["state"] != "started" || !next.After(expires) {
			t.Errorf("expires_at was %v: %v, %v", expires, w, err)
		}
		expires = next
	}
	p.must("workspace", "update", id, "--ttl-seconds=1")
	// The state is visible before the reason.
	testenv.Eventually(t, "the workspace is stopped because of its time to live", func() bool {
		w := p.object("workspace", "status", id)
		return w["state"] == "stopped" && w["state_reason"] == "its time to live of 1 s was over" && w["expires_at"] == nil
	})
	p.must("workspace", "update", id, "--ttl-seconds=3600")
	p.must("workspace", "start", id)
	if got := p.shell(id, "cat kept"); got != "kept\n" {
		t.Errorf("lost: %q", got)
	}
}
