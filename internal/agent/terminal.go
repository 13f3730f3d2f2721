package agent

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/pty"
)

// lineLimit returns the length of the longest line that a terminal accepts. It returns 0 if the
// program reads single keys, which have no limit, or if terminal is nil.
func lineLimit(terminal *os.File) uint32 {
	if settings, err := pty.Settings(terminal); err == nil && settings.Lflag&unix.ICANON != 0 {
		return program.LineLimit
	}
	return 0
}

// newestGroup returns the process group of a session that was started last. If the foreground group
// is unknown, the newest group is most likely the foreground group.
func newestGroup(session int) int {
	last := member{group: session}
	for _, m := range members(session) {
		if m.group > 0 && m.began >= last.began {
			last = m
		}
	}
	return last.group
}

// member is a process of a session.
type member struct {
	group   int
	running bool          // the process runs, or waits for a processor or the disk
	used    time.Duration // processor time
	began   uint64        // start time, in clock ticks since boot
}

// clockTick is the unit of times in /proc.
const clockTick = 10 * time.Millisecond

// members returns the processes of a session that the agent can see in /proc.
func members(session int) (all []member) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
		// Field 3 and later of proc_pid_stat(5): state, ppid, pgrp, session, …, utime, stime,
		// …, starttime.
		fields := strings.Fields(rest)
		if len(fields) < 20 || fields[3] != strconv.Itoa(session) {
			continue
		}
		group, err := strconv.Atoi(fields[2])
		began, failed := strconv.ParseUint(fields[19], 10, 64)
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		if err == nil && failed == nil {
			all = append(all, member{group, fields[0] == "R" || fields[0] == "D", time.Duration(user+system) * clockTick, began})
		}
	}
	return all
}
