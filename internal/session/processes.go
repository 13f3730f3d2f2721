package session

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Variable is in the environment of all that runs in a session: its id.
const Variable = "PYRO_PTY_SESSION"

// Belonging finds the processes of a session: those that have its id in their environment, those of the session of its terminal, and those below its first process
// (0: not known), as long as that is there. What is found once is found until it has ended, also when its parents have.
func Belonging(id string, first int) func() []int {
	known := map[int]uint64{}
	return func() []int {
		all := marked(id)
		if first > 0 {
			all = append(append(all, Descendants(first)...), ofSession(first)...)
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

// killAll kills the processes of a session whose keeper was killed.
func killAll(id string, first int) {
	belong := Belonging(id, first)
	for range 100 { // what forks meanwhile is found in the next round
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

// AskToEnd asks processes to end, so that their traps run, and waits for them up to grace. The first
// process of the terminal is asked last, and gets grace again: when it ends, the kernel hangs up on the
// others. Meanwhile it is stopped, or a script would go on with its next command. If it can't stay
// stopped, as in tmux, only an interactive shell is asked last.
func AskToEnd(first int, stays bool, grace time.Duration, belong func() []int) {
	is := func(pid int) bool { return pid == first && (stays || ignores(pid, unix.SIGTERM)) }
	last := slices.DeleteFunc(belong(), func(pid int) bool { return !is(pid) })
	if stays && len(last) > 0 {
		unix.Kill(first, unix.SIGSTOP)
	}
	others := func() []int {
		return slices.DeleteFunc(belong(), func(pid int) bool { return slices.Contains(last, pid) })
	}
	ask(others(), grace, others)
	ask(last, grace, belong)
}

// ask asks processes to end, and waits until some have or grace is over. Interactive shells ignore
// SIGTERM, and run their EXIT traps on SIGHUP.
func ask(pids []int, grace time.Duration, some func() []int) {
	for _, pid := range pids {
		sig := unix.SIGTERM
		if ignores(pid, sig) {
			sig = unix.SIGHUP
		}
		unix.Kill(pid, sig)
		unix.Kill(pid, unix.SIGCONT)
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline) && len(pids) > 0 && len(some()) > 0; {
		time.Sleep(5 * time.Millisecond)
	}
}

// ignores tells whether a process ignores a signal.
func ignores(pid int, sig unix.Signal) bool {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && bits&(1<<(sig-1)) != 0
}

// marked are the processes of this user that were started in a session.
func marked(id string) (all []int) {
	mark := "\x00" + Variable + "=" + id + "\x00"
	for pid := range processes {
		if env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); err == nil && strings.Contains("\x00"+string(env), mark) {
			all = append(all, pid)
		}
	}
	return all
}

// ofSession are the processes of a session of terminals, by the process that leads it.
func ofSession(leader int) (all []int) {
	for pid := range processes {
		if s, ok := statOf(pid); ok && s.session == leader {
			all = append(all, pid)
		}
	}
	return all
}

// Descendants are all processes below one that have not ended.
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

// processes are all of this host.
func processes(yield func(int) bool) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid) {
			return
		}
	}
}

// stat is what is needed of proc_pid_stat(5).
type stat struct {
	state      byte
	parent     int
	session    int
	foreground int // the process group in the foreground of its terminal
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

// startOf is when a process that has not ended was started.
func startOf(pid int) (uint64, bool) {
	s, ok := statOf(pid)
	return s.started, ok && s.alive()
}
