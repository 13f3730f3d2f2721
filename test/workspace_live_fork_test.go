//go:build machine

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// number returns the value of an environment variable. If the variable is not set, it returns the
// default.
func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// recording starts a program that continuously records random numbers and the identity of the
// machine. Different machines must record different numbers. The pause between two records is in
// seconds. The program is a single process, because a new process takes a gVisor machine more than
// 8 ms of processor time.
func recording(pause float64) string {
	return fmt.Sprintf(`cat /etc/machine-id >/run/first; setsid python3 -c '
import time
drawn, named = open("/workspace/drawn", "ab", 0), open("/run/named", "ab", 0)
def read(path, size=-1):
    with open(path, "rb", 0) as f:
        return f.read(size)
while True:
    drawn.write(read("/proc/sys/kernel/random/uuid") + read("/dev/urandom", 16).hex().encode() + b"\n")
    for _ in range(5):
        named.write(read("/proc/sys/kernel/hostname").strip() + b" " + read("/etc/machine-id"))
        time.sleep(%g)
' >/dev/null 2>&1 </dev/null &`, pause)
}

// identity is a script that prints the identity of a machine, with one value per line, and the
// machine's time.
const identity = `cat /proc/sys/kernel/random/boot_id /etc/machine-id; cat /sys/class/net/eth0/address 2>/dev/null || ` +
	`python3 -c 'import fcntl, socket, struct; print(fcntl.ioctl(socket.socket(), 0x8927, struct.pack("256s", b"eth0"))[18:24].hex(":"))'; hostname; ` +
	`cat /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | od -A n -t x1; date +%s%N; ls /etc/ssh | grep -c ssh_host || true`

// forkLive creates live forks and checks that all of them run.
func (p *program) forkLive(id string, count int) (ids []string) {
	p.t.Helper()
	var v struct {
		Workspaces []struct {
			ID    string `json:"workspace_id"`
			State string
		}
	}
	if err := json.Unmarshal([]byte(p.must("workspace", "fork", id, "--live", "--count", fmt.Sprint(count), "--json")), &v); err != nil {
		p.t.Fatal(err)
	}
	for _, w := range v.Workspaces {
		if w.State != "started" {
			p.t.Errorf("a fork is %s", w.State)
		}
		ids = append(ids, w.ID)
	}
	if len(ids) != count {
		p.t.Fatalf("%d forks, not %d", len(ids), count)
	}
	return ids
}

// TestLiveForks creates many live forks of a machine that has running programs. The programs must
// continue in each fork. Machines must not share identities or random numbers.
func TestLiveForks(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create("--network-policy", "egress", "--mem-mib", "512", "--ttl-seconds", "7200") // checking fifty emulated machines takes ten minutes
	few := 6
	if emulated() {
		few = 2
	} else if testing.Short() {
		few = 3
	}
	count := number("PYRO_TEST_FORKS", few)
	running := strings.Replace(counting, "sleep 0.05", "sleep 0.5", 1) + recording(0.1)
	if count > few { // the programs must leave processor time for the checks
		running = strings.Replace(counting, "sleep 0.05", "sleep 2", 1) + recording(0.2*float64(count)/float64(few))
	}
	p.shell(id, "mkdir -p /etc/ssh; echo key >/etc/ssh/ssh_host_x_key; cat /proc/sys/kernel/random/boot_id >/dev/null; "+running)
	shell := p.openShell(id)
	p.must("workspace", "shell", "write", id, shell, "--input", "KEPT=kept; echo be''gun")
	p.awaitShell(id, shell, "begun\n")
	supervisor, _ := p.processes(id)
	before := p.countsOn(id, 0, "the source")
	p.shell(id, "until test -s /run/named; do sleep 0.05; done")

	began := time.Now()
	forks := p.forkLive(id, count)
	t.Logf("%d live forks in %s", len(forks), time.Since(began).Round(time.Millisecond))
	if now, _ := p.processes(id); now != supervisor {
		t.Error("the supervisor of the source changed")
	}
	p.countsOn(id, before, "the source")

	seen := map[string]string{}
	var drawn [][]string
	twins := "" // how often a fork recorded the source's identity before it got its own
	for _, one := range append(slices.Clone(forks), id) {
		began := time.Now()
		lines := strings.Split(strings.TrimSpace(p.shell(one, identity)), "\n")
		ended := time.Now()
		most := lateness(ended.Sub(began))
		if len(lines) != 8 {
			t.Fatalf("%s: %q", one, lines)
		}
		for i, what := range []string{"boot id", "machine-id", "MAC", "host name", "uuid", "random bytes"} {
			key := what + " " + lines[i]
			if other, ok := seen[key]; ok || len(lines[i]) < 10 {
				t.Errorf("%s and %s have the same %s", one, other, key)
			}
			seen[key] = one
		}
		if lines[3] != one {
			t.Errorf("%s calls itself %s", one, lines[3])
		}
		nanos, err := strconv.ParseInt(lines[6], 10, 64)
		if at := time.Unix(0, nanos); err != nil || at.Before(began.Add(-most)) || at.After(ended.Add(most)) {
			t.Errorf("%s, forked from %s: clock: got %q between %d and %d", one, id, lines[6], began.UnixNano(), ended.UnixNano())
		}
		if keys := map[bool]string{true: "1", false: "0"}[one == id]; lines[7] != keys {
			t.Errorf("%s has %s host keys, not %s", one, lines[7], keys)
		}
		p.countsOn(one, p.counted(one, one)+1, one)
		p.must("workspace", "shell", "write", one, shell, "--input", "echo $KEPT by $(hostname)")
		if said := p.awaitShell(one, shell, "kept by "+one); !strings.Contains(said, "begun\n") {
			t.Errorf("%s: its shell has printed %q", one, said)
		}
		drawn = append(drawn, strings.Split(p.shell(one, "head -c -1 drawn"), "\n"))
		if one != id {
			p.shell(one, "until grep -q "+one+" /run/named; do sleep 0.05; done")
			if n := p.shell(one, "grep -cE '"+id+"|'$(cat /run/first) /run/named"); twins != "" && n != twins {
				t.Errorf("%s: programs saw the identity of the source %s times, and others %s times", one, n, twins)
			} else {
				twins = n
			}
			p.must("workspace", "delete", one)
		}
	}

	// All machines have the numbers that were recorded before the fork. Later numbers must differ.
	common := 0
	for same := true; same; common++ {
		for _, lines := range drawn {
			same = same && common < len(lines)-1 && lines[common] == drawn[0][common]
		}
	}
	since := map[string]int{}
	for i, lines := range drawn {
		lines = lines[common-1 : len(lines)-1] // the last line can be incomplete
		if len(lines) < 2 {
			t.Errorf("machine %d has drawn %d since the fork", i, len(lines))
		}
		for _, l := range lines {
			if other, ok := since[l]; ok {
				t.Errorf("machines %d and %d, after %d lines that all have, have drawn %q", i, other, common-1, l)
			}
			since[l] = i
		}
	}
	p.countsOn(id, p.counted(id, "the source"), "the source, when its forks are gone")
}
