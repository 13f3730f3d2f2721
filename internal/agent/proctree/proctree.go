// Package proctree finds the descendants of a process in /proc and kills them. Agents without
// cgroups use it for the processes of an exec.
package proctree

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process describes the parent and the session of a process.
type Process struct{ Parent, Session int }

// Table maps the PIDs of a PID namespace to their processes. It contains no zombies.
type Table map[int]Process

// maxDepth is larger than the depth of any process tree. It is needed because a table can contain
// loops: Read does not read all processes at the same time.
const maxDepth = 1000

// Read reads the table from /proc.
func Read() (Table, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(Table, len(names))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// Format: pid (name) state ppid pgrp session … The name can contain any bytes.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, err2 := strconv.Atoi(fields[1])
		session, err3 := strconv.Atoi(fields[3])
		if errors.Join(err1, err2, err3) == nil {
			all[pid] = Process{parent, session}
		}
	}
	return all, nil
}

// depth returns the number of ancestors of a process.
func (t Table) depth(pid int) (n int) {
	for ; pid > 1 && n < maxDepth; n++ {
		pid = t[pid].Parent
	}
	return n
}

// descends reports whether pid is a descendant of ancestor.
func (t Table) descends(pid, ancestor int) bool {
	for range maxDepth {
		pid = t[pid].Parent
		if pid <= 1 || pid == ancestor {
			return pid == ancestor
		}
	}
	return false
}

// killTimeout limits how long [KillAll] runs while processes start other processes.
const killTimeout = 5 * time.Second

// KillAll kills the descendants of top for which match returns true. It repeats this until none
// exists. It fails if processes start faster than it kills them.
func KillAll(top int, match func(all Table, pid int) bool) error {
	for began := time.Now(); time.Since(began) < killTimeout; {
		all, err := Read()
		if err != nil {
			return err
		}
		var found []int
		for pid := range all {
			if all.descends(pid, top) && match(all, pid) {
				found = append(found, pid)
			}
		}
		if len(found) == 0 {
			return nil
		}
		// Parents are killed first, so that they can't react to the end of a child.
		slices.SortFunc(found, func(a, b int) int { return all.depth(a) - all.depth(b) })
		for _, pid := range found {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("processes start faster than they can be killed")
}
