//go:build machine

package test

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// counting starts a program that appends consecutive numbers to a file.
const counting = `setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >>/workspace/count; sleep 0.05; done' >/dev/null 2>&1 </dev/null &`

// counted checks that no number is missing or repeated, and returns the last number.
func (p *program) counted(id, when string) int {
	p.t.Helper()
	said := strings.Fields(p.shell(id, `awk '$0 != NR { print "line " NR " is " $0; exit 1 }' count; wc -l <count`))
	last, err := strconv.Atoi(strings.Join(said, " "))
	if err != nil {
		p.t.Fatalf("%s: counted wrongly: %q", when, said)
	}
	return last
}

// countsOn waits until the last number is greater than the given number.
func (p *program) countsOn(id string, beyond int, when string) int {
	p.t.Helper()
	for began := time.Now(); ; {
		if now := p.counted(id, when); now > beyond {
			return now
		}
		if time.Since(began) > patience {
			p.t.Fatalf("%s: the counter does not advance", when)
		}
	}
}

// pause pauses a workspace. It checks that none of the workspace's processes runs.
func (p *program) pause(id string) {
	p.t.Helper()
	supervisor, m := p.processes(id)
	if w := p.object("workspace", "pause", id); w["state"] != "paused" || w["state_reason"] != "it was paused" {
		p.t.Fatalf("paused: %v", w)
	}
	if err := errors.Join(gone(supervisor), gone(m)); err != nil {
		p.t.Fatal(err)
	}
}

// stateOf returns the state of a workspace. It does not resume the workspace.
func (p *program) stateOf(id string) string {
	p.t.Helper()
	return p.object("workspace", "status", id)["state"].(string)
}

// lateness returns how late the clock of a machine can be if a request takes the given time. A slow
// host also sets the clock late. A clock that was not set is later, because a pause or a fork takes
// longer than a request.
func lateness(request time.Duration) time.Duration { return max(50*time.Millisecond, request) }

// clock checks that the clock of a machine is equal to the host's clock, except for the duration of
// the request.
func (p *program) clock(id, when string) {
	p.t.Helper()
	began := time.Now()
	said := strings.TrimSpace(p.shell(id, "date +%s%N"))
	ended := time.Now()
	most := lateness(ended.Sub(began))
	nanos, err := strconv.ParseInt(said, 10, 64)
	if at := time.Unix(0, nanos); err != nil || at.Before(began.Add(-most)) || at.After(ended.Add(most)) {
		p.t.Errorf("%s: clock: got %q between %d and %d", when, said, began.UnixNano(), ended.UnixNano())
	}
}

// attach attaches a terminal to a shell.
func (p *program) attach(id, shell string) (cmd *exec.Cmd, in io.Writer, out io.Reader) {
	p.t.Helper()
	cmd = p.programFor(patience, "script", "-qec", strings.Join(p.command("workspace", "shell", "attach", id, shell).Args, " "), "/dev/null")
	in, err := cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return cmd, in, out
}

// TestPause pauses and resumes a workspace that has many running programs.
func TestPause(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress+published-ports")
	p.shell(id, `echo kept >kept; echo kept >/root/kept; `+counting)

	// This shell has a variable, unread output, and a lot of unread input.
	shell := p.openShell(id, "--env", "PS1=> ")
	p.must("workspace", "shell", "write", id, shell, "--input", "KEPT='häßlich 🙂'; stty raw -echo; echo beg''un; sleep 2; head -c 200000 | sha256sum; stty sane; echo $KEPT")
	for !strings.Contains(p.must("workspace", "shell", "read", id, shell, "--plain", "--cursor", "0"), "begun") {
		time.Sleep(20 * time.Millisecond)
	}
	var typed strings.Builder
	for range 4 {
		piece := strings.Repeat("größer 🙂 ", 50000/14)
		piece += strings.Repeat("x", 50000-len(piece))
		typed.WriteString(piece)
		p.must("workspace", "shell", "write", id, shell, "--no-newline", "--input", piece)
	}

	// A service that has a published port, and a command whose caller is waiting.
	p.must("workspace", "service", "start", id, "web", "--publish", "8000", "--ready-tcp", "8000", "--ready-timeout-seconds", "120", "--",
		"sh", "-c", "echo says this; exec python3 -u -m http.server 8000")
	published := func() (port int) {
		for _, one := range p.object("workspace", "service", "status", id, "web")["published_ports"].([]any) {
			port = int(one.(map[string]any)["host_port"].(float64))
		}
		return port
	}
	port := published()
	at := fmt.Sprintf("http://127.0.0.1:%d/kept", port)
	if got, err := get(at); err != nil || got != "kept\n" {
		t.Errorf("%q, %v", got, err)
	}
	r := p.start("workspace", "exec", id, "--timeout-seconds=600", "--", "sh", "-c", "echo ready; while ! test -e go; do sleep 0.1; done; echo größer >&2; exit 7")
	r.says("ready")

	watching, _, seen := p.attach(id, shell)
	screen := bufio.NewReader(seen)
	if line, err := screen.ReadString('\n'); err != nil || !strings.HasPrefix(line, "attached to "+shell) {
		t.Errorf("%q, %v", line, err)
	}

	p.pause(id)
	if said, err := io.ReadAll(screen); err != nil || watching.Wait() == nil || !strings.Contains(string(said), "paused") {
		t.Errorf("the attached client got %q, %v", said, err)
	}
	if end := r.end(); end.code != 125 || !strings.Contains(end.stderr, "paused together with the workspace") || !strings.Contains(end.stderr, "pyro: hint: ") {
		t.Errorf("the caller of a command got %+v", end)
	}
	if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
		c.Close()
		t.Error("the port of a paused machine accepts connections")
	}
	for _, w := range p.list() {
		if w["state"] != "paused" {
			t.Errorf("%v", w)
		}
	}
	if text := p.must("workspace", "status", id); !strings.Contains(text, "paused: it was paused") {
		t.Error(text)
	}
	if w := p.object("workspace", "pause", id); w["state"] != "paused" {
		t.Errorf("paused again: %v", w)
	}
	if s := p.object("workspace", "service", "status", id, "web"); s["state"] != "paused" || s["state_reason"] != nil || len(s["published_ports"].([]any)) != 0 {
		t.Errorf("the service of a paused one: %v", s)
	}
	if got := p.must("workspace", "disk", "read", id, "kept"); got != "kept\n" || p.stateOf(id) != "paused" {
		t.Errorf("the disk of a paused one: %q", got)
	}

	// Two concurrent operations must resume the workspace only once.
	var both sync.WaitGroup
	for range 2 {
		cmd := p.command("workspace", "exec", "-q", id, "--", "sh", "-c", "echo $PPID; touch go; cat kept /root/kept")
		both.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "\nkept\nkept\n") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	both.Wait()
	p.clock(id, "after it was paused")
	last := p.counted(id, "after it was paused")
	p.countsOn(id, last, "after it was paused")
	for _, again := range []string{"resume", "start"} {
		if w := p.object("workspace", again, id); w["state"] != "started" {
			t.Errorf("%s: %v", again, w)
		}
	}

	// The history must contain the end of the command.
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var found map[string]any
		for _, e := range p.object("workspace", "logs", id)["entries"].([]any) {
			if one := e.(map[string]any); one["stdout"] == "ready\n" {
				found = one
			}
		}
		if found != nil && found["exit_code"] == 7.0 && found["stderr"] == "größer\n" {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("the resumed command is reported as %v", found)
		}
	}

	// The shell must have processed the complete input.
	want := fmt.Sprintf("%x  -", sha256.Sum256([]byte(typed.String())))
	if said := p.awaitShell(id, shell, "häßlich 🙂\n"); !strings.Contains(said, "begun") || !strings.Contains(said, want) {
		t.Errorf("not %s: %q", want, said)
	}
	if again := published(); again != port {
		t.Errorf("the port was %d and is %d", port, again)
	}
	if got, err := get(at); err != nil || got != "kept\n" {
		t.Errorf("%q, %v", got, err)
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // the log can be later than the answer
		logs := p.run(nil, "workspace", "service", "logs", id, "web")
		if strings.HasPrefix(logs.stdout, "says this\n") && strings.Count(logs.stderr, `"GET /kept HTTP/1.1" 200`) == 2 {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("%+v", logs)
		}
	}

	// A service can be stopped while its workspace is paused.
	p.pause(id)
	if s := p.object("workspace", "service", "stop", id, "web"); s["state"] != "stopped" || s["state_reason"] != nil {
		t.Errorf("stopped: %v", s)
	}
	if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
		c.Close()
		t.Error("the port of a stopped service accepts connections")
	}

	// If a paused workspace is stopped, its changes must not be lost.
	p.shell(id, "echo later >/root/later; echo later >later; rm /root/kept")
	p.pause(id)
	if w := p.object("workspace", "stop", id); w["state"] != "stopped" {
		t.Errorf("stopped: %v", w)
	}
	p.fails(5, "it is stopped, not paused", "workspace", "resume", id)
	if r := p.run(nil, "workspace", "pause", id); r.code == 0 || !strings.Contains(r.stderr, "it is stopped") || !strings.Contains(r.stderr, "pyro: hint: pyro workspace start "+id) {
		t.Errorf("pause of one that is stopped: %+v", r)
	}
	p.must("workspace", "start", id)
	if got := p.shell(id, "cat /root/later later; ls /root"); got != "later\nlater\nlater\n" {
		t.Errorf("after it was stopped: %q", got)
	}
	if list := p.object("workspace", "shell", "list", id); len(list["shells"].([]any)) != 0 {
		t.Errorf("shells of an ended machine: got %v", list)
	}
	p.shell(id, "sleep 1") // time for the machine to have unreported output
	p.pause(id)
	p.must("workspace", "delete", id)
	if left, _ := os.ReadDir(filepath.Join(p.state, "workspaces")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
