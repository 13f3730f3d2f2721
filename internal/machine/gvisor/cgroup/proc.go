package cgroup

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxFile bounds what is read of one of the kernel's files: more than a host with ten thousands of mounts or a million processes has.
const maxFile = 16 << 20

func read(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%s is longer than %d MiB", name, maxFile>>20)
	}
	return string(b), nil
}

// membership is in which group of one tree a process is.
type membership struct {
	v2          bool
	controllers []string // of the tree, if version 1. One without controllers has a name: "name=systemd"
	path        string   // of the group, from the root of the cgroup namespace on: ".." in it leads out of that
}

func (m membership) has(controller string) bool { return slices.Contains(m.controllers, controller) }

// parseMemberships reads /proc/PID/cgroup, see cgroups(7): lines of "number:controller,controller:path". Version 2 has "0::path".
func parseMemberships(text string) ([]membership, error) {
	var all []membership
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // a path may have ":" in it, but no line break
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			return nil, fmt.Errorf("no line of a cgroup file: %.200q", line)
		}
		number, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil || (number == 0) != (f[1] == "") {
			return nil, fmt.Errorf("no line of a cgroup file: %.200q", line)
		}
		m := membership{v2: number == 0, path: f[2]}
		if !m.v2 {
			m.controllers = strings.Split(f[1], ",")
		}
		all = append(all, m)
	}
	return all, nil
}

// mount is a file system that the present process sees.
type mount struct {
	root     string   // what of the file system is at point
	point    string   // where it is
	readOnly bool     // here, or as a whole
	kind     string   // of file system: "cgroup" is version 1, "cgroup2" version 2
	super    []string // options of the file system, among which version 1 has the controllers
}

// parseMounts reads /proc/PID/mountinfo, see proc_pid_mountinfo(5): lines of
//
//	number parent major:minor root point options [optional field ...] - kind source super-options
func parseMounts(text string) ([]mount, error) {
	var all []mount
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		end := -1
		if len(f) > 6 {
			end = slices.Index(f[6:], "-") + 6
		}
		if end < 6 || len(f) != end+4 {
			return nil, fmt.Errorf("no line of mountinfo: %.200q", line)
		}
		m := mount{kind: f[end+1], super: strings.Split(f[end+3], ",")}
		m.readOnly = slices.Contains(strings.Split(f[5], ","), "ro") || slices.Contains(m.super, "ro")
		var ok1, ok2 bool
		m.root, ok1 = unescape(f[3])
		m.point, ok2 = unescape(f[4])
		if !ok1 || !ok2 || !strings.HasPrefix(m.point, "/") {
			return nil, fmt.Errorf("no line of mountinfo: %.200q", line)
		}
		all = append(all, m)
	}
	return all, nil
}

// unescape gives back the spaces, tabs, line breaks and backslashes that mountinfo writes as "\" and three octal digits.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		if len(rest) < 3 {
			return "", false
		}
		c, err := strconv.ParseUint(rest[:3], 8, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		s = rest[3:]
	}
}

// folder is where the mount shows the group that a membership has as its path, if it does. In a container a mount can begin at any group, and both
// paths can begin above the cgroup namespace: then nothing tells how the one lies to the other.
func (m mount) folder(group string) (string, bool) {
	if path.Clean("/"+m.root) != m.root || path.Clean("/"+group) != group {
		return "", false
	}
	rest, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(m.root, "/")+"/")
	return filepath.Join(m.point, rest), ok
}

// count gives the number of a line "key number", as in memory.events.
func count(text, key string) uint64 {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(n, "\n"), 10, 64)
			return n
		}
	}
	return 0
}

// processes reads cgroup.procs, which has a process id a line. Processes that this pid namespace does not see are 0 there, which is no id and left out.
func processes(text string) ([]int, error) {
	var all []int
	for line := range strings.Lines(text) {
		pid, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("no process id: %.200q", line)
		}
		if pid > 0 {
			all = append(all, int(pid))
		}
	}
	return all, nil
}
