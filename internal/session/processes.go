package session

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable that contains the session ID. All programs of a session
// inherit it.
const Variable = "PYRO_PTY_SESSION"

// ProcessFinder returns a function that lists the processes of a session. A process belongs to the
// session if one of these is true:
//   - Its environment contains the session ID.
//   - It is in the terminal's kernel session.
//   - It descends from the first process.
//
// A process stays in the list until it ends, even if its parents end. first is the PID of the first
// process, or 0 if that is unknown.
func ProcessFinder(id string, first int) func() []int {
	known := map[int]uint64{}
	return func() []int {
		all := marked(id)
		if first > 0 {
			all = append(append(all, Descendants(first)...), inSession(first)...)
		}
		for _, pid := range all {
			if started, ok := startOf(pid); ok {
				known[pid] = started
			}
		}
		var alive []int
		for pid, started := range known {
			if now, ok := startOf(pid); ok && now == started && pid != os.Getpid() {
				alive = append(alive, pid)
			} else {
				delete(known, pid)
			}
		}
		return alive
	}
}

// killAll kills the processes of a session that has lost its session process.
func killAll(id string, first int) {
	belong := ProcessFinder(id, first)
	for range 100 { // each round can find new children
		left := belong()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// AskToEnd asks the programs of a session to end, so that their EXIT traps run. It returns when all
// of them have ended, or after twice the duration grace. Programs get SIGTERM. Interactive shells
// ignore SIGTERM and get SIGHUP instead, which runs their EXIT traps.
//
// AskToEnd first stops all processes, so that each has its signal pending before any of them runs
// again. Otherwise a script could notice the end of its child and run its next command. Shells that
// get SIGHUP are asked last, because they send SIGHUP to their jobs. The leader of the terminal's
// session is also asked last, because its end hangs up the terminal. If leader is 0, no leader is
// asked.
func AskToEnd(leader int, grace time.Duration, belong func() []int) {
	stopped := stopAll(belong)
	var first, last []int
	for _, pid := range stopped {
		if pid == leader || ignores(pid, unix.SIGTERM) {
			last = append(last, pid)
		} else {
			first = append(first, pid)
		}
	}
	ask(first, grace, func() []int {
		return slices.DeleteFunc(belong(), func(pid int) bool { return slices.Contains(last, pid) })
	})
	ask(last, grace, belong)
}

// EndGrace is the time between asking programs to end and killing them. Programs that AskToEnd asks
// last get the same time again.
const EndGrace = 1500 * time.Millisecond

// maxStopRounds is the maximum number of rounds of stopAll.
const maxStopRounds = 20

// stopAll stops all processes. In further rounds it stops the children that were created during the
// previous round. It stops parents before their children, so that a shell does not notice that its
// job was stopped. In the result, children come before their parents.
func stopAll(belong func() []int) (stopped []int) {
	depths := map[int]int{}
	deeper := func(a, b int) int { return depths[a] - depths[b] }
	for range maxStopRounds {
		forked := slices.DeleteFunc(belong(), func(pid int) bool { _, known := depths[pid]; return known })
		if len(forked) == 0 {
			break
		}
		for _, pid := range forked {
			depths[pid] = depth(pid)
		}
		slices.SortFunc(forked, deeper)
		for _, pid := range forked {
			unix.Kill(pid, unix.SIGSTOP)
		}
		stopped = append(stopped, forked...)
	}
	slices.SortStableFunc(stopped, func(a, b int) int { return deeper(b, a) })
	return stopped
}

// depth returns the number of ancestors of a process.
func depth(pid int) (n int) {
	for s, ok := statOf(pid); ok && s.parent > 0; s, ok = statOf(s.parent) {
		n++
	}
	return n
}

// ask signals processes and resumes them. Then it waits until the function left returns no process,
// but at most for the duration grace. In pids, children must come before their parents: when a
// parent ends, the kernel sends SIGHUP to its stopped children.
func ask(pids []int, grace time.Duration, left func() []int) {
	for _, pid := range pids {
		sig := unix.SIGTERM
		if ignores(pid, sig) {
			sig = unix.SIGHUP
		}
		unix.Kill(pid, sig)
	}
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGCONT)
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline) && len(pids) > 0 && len(left()) > 0; {
		time.Sleep(5 * time.Millisecond)
	}
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, sig unix.Signal) bool {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && bits&(1<<(sig-1)) != 0
}

// marked returns the processes of this user that have the session ID in their environment.
func marked(id string) (all []int) {
	mark := "\x00" + Variable + "=" + id + "\x00"
	for pid := range processes {
		if env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); err == nil && strings.Contains("\x00"+string(env), mark) {
			all = append(all, pid)
		}
	}
	return all
}

// inSession returns the processes of a kernel session, given the session's leader.
func inSession(leader int) (all []int) {
	for pid := range processes {
		if s, ok := statOf(pid); ok && s.session == leader {
			all = append(all, pid)
		}
	}
	return all
}

// Descendants returns all running processes that descend from a process.
func Descendants(of int) (all []int) {
	parents := map[int][]int{}
	for pid := range processes {
		if s, ok := statOf(pid); ok && s.alive() {
			parents[s.parent] = append(parents[s.parent], pid)
		}
	}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		all = append(all, parents[next[0]]...)
		next = append(next, parents[next[0]]...)
	}
	return all
}

// processes yields all processes of the host.
func processes(yield func(int) bool) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid) {
			return
		}
	}
}

// stat contains fields of proc_pid_stat(5).
type stat struct {
	state      byte
	parent     int
	session    int
	foreground int // the foreground process group of the process's terminal
	started    uint64
}

func (s stat) alive() bool { return !slices.Contains([]byte("ZX"), s.state) }

func statOf(pid int) (s stat, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return s, false
	}
	s.state = fields[0][0]
	s.parent, _ = strconv.Atoi(fields[1])
	s.session, _ = strconv.Atoi(fields[3])
	s.foreground, _ = strconv.Atoi(fields[5])
	s.started, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err == nil
}

// startOf returns the start time of a running process, in clock ticks since boot.
func startOf(pid int) (uint64, bool) {
	s, ok := statOf(pid)
	return s.started, ok && s.alive()
}
