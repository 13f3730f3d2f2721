package proctree

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strconv"
)

// Group finds the processes of one exec. They are the first process, its descendants, the processes
// of its session, and all processes with the group's mark in their environment. A process escapes
// only if it leaves its parent and its session and changes its environment.
type Group struct {
	top  int
	mark string
}

// markName is the name of the environment variable that marks the processes of a group. Each group
// has its own value.
const markName = "PYRO_EXEC"

// NewGroup creates a group of processes among the descendants of top.
func NewGroup(top int) Group {
	var id [8]byte
	rand.Read(id[:])
	return Group{top, markName + "=" + hex.EncodeToString(id[:])}
}

// Prepare adds the group's mark to the environment of a process that is about to start.
func (g Group) Prepare(attr *os.ProcAttr) { attr.Env = append(attr.Env, g.mark) }

// Kill kills all processes of the group, but never the calling process. leader is the first process
// of the group, which can already have ended.
func (g Group) Kill(leader int) error {
	return KillAll(g.top, func(all Table, pid int) bool { return g.has(all, leader, pid) })
}

// Members returns the PIDs of the processes of the group. leader is the same as for Kill.
func (g Group) Members(leader int) (pids []int, err error) {
	all, err := Read()
	for pid := range all {
		if all.descends(pid, g.top) && g.has(all, leader, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

func (g Group) has(all Table, leader, pid int) bool {
	for range maxDepth {
		if pid == 0 || pid == os.Getpid() {
			return false
		}
		if pid == leader || all[pid].Session == leader || HasVariable(pid, g.mark) {
			return true
		}
		pid = all[pid].Parent
	}
	return false
}

// OutOfMemory returns false, because only cgroups count these events.
func (Group) OutOfMemory() bool { return false }

// Release does nothing.
func (Group) Release() {}

// maxEnviron is how much of a process's environment HasVariable reads, in bytes.
const maxEnviron = 1 << 20

// HasVariable reports whether a process started with a variable in its environment. variable has
// the form NAME=VALUE.
func HasVariable(pid int, variable string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return string(v) == variable })
}
