package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// relation is where a process stands.
type relation struct{ parent, session int }

// table has all processes of the host.
type table map[int]relation

// reaper gives the process that reaps for the agent. It is the same program: all below another is nothing that the agent could kill.
func reaper() (pid int, err error) {
	pid = os.Getppid()
	own, err1 := os.Stat("/proc/self/exe")
	parent, err2 := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	if !os.SameFile(own, parent) {
		return 0, errors.New("the agent's reaper is gone")
	}
	return pid, nil
}

// killPatience bounds how long processes are killed that start others meanwhile.
const killPatience = 5 * time.Second

// killAll kills those descendants of a process that are wanted, until there is none.
func killAll(top int, wanted func(all table, pid int) bool) error {
	for began := time.Now(); time.Since(began) < killPatience; {
		all, err := processes()
		if err != nil {
			return err
		}
		var found []int
		for pid := range all {
			if descends(all, pid, top) && wanted(all, pid) {
				found = append(found, pid)
			}
		}
		if len(found) == 0 {
			return nil
		}
		// Parents first: none of them is to see a child end, and act on it.
		slices.SortFunc(found, func(a, b int) int { return all.depth(a) - all.depth(b) })
		for _, pid := range found {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("processes are started faster than they can be killed")
}

// deepest is deeper than any tree: a table that was read while it changed could have a circle.
const deepest = 1000

// depth is how many ancestors a process has.
func (t table) depth(pid int) (n int) {
	for ; pid > 1 && n < deepest; n++ {
		pid = t[pid].parent
	}
	return n
}

func descends(all table, pid, from int) bool {
	for range deepest {
		pid = all[pid].parent
		if pid <= 1 || pid == from {
			return pid == from
		}
	}
	return false
}

// processes reads the process table, zombies left out.
func processes() (table, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(table, len(names))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid pgrp session …, where the name can hold anything
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, err2 := strconv.Atoi(fields[1])
		session, err3 := strconv.Atoi(fields[3])
		if errors.Join(err1, err2, err3) == nil {
			all[pid] = relation{parent, session}
		}
	}
	return all, nil
}

// maxEnviron bounds what is read of a process's environment.
const maxEnviron = 1 << 20

// marked tells whether a process has a variable in its environment.
func marked(pid int, variable string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return string(v) == variable })
}
