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

// maxFile is the maximum size of a kernel file that read accepts, in bytes. It is enough for tens
// of thousands of mounts or a million processes.
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

// membership is the group of a process in one tree.
type membership struct {
	v2          bool
	controllers []string // controllers of the tree, in version 1.
	path        string   // path of the group from the root of the cgroup namespace on.
}

func (m membership) has(controller string) bool { return slices.Contains(m.controllers, controller) }

// parseMemberships parses /proc/PID/cgroup, see cgroups(7). In version 1 a line is
// "number:controller,controller:path". In version 2 the only line is "0::path".
func parseMemberships(text string) ([]membership, error) {
	var all []membership
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // a path can contain ":" but no line break
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			return nil, fmt.Errorf("invalid line of a cgroup file: %.200q", line)
		}
		number, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil || (number == 0) != (f[1] == "") {
			return nil, fmt.Errorf("invalid line of a cgroup file: %.200q", line)
		}
		m := membership{v2: number == 0, path: f[2]}
		if !m.v2 {
			m.controllers = strings.Split(f[1], ",")
		}
		all = append(all, m)
	}
	return all, nil
}

// mount is one mount in the mount namespace of the current process.
type mount struct {
	root     string   // part of the file system
	point    string   // path of the mount point
	readOnly bool     // the mount or the file system is read-only.
	kind     string   // type of the file system, such as "cgroup2".
	super    []string // options; in version 1 with the controllers
}

// parseMounts parses /proc/PID/mountinfo, see proc_pid_mountinfo(5). Each line has this form:
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
			return nil, fmt.Errorf("invalid line of mountinfo: %.200q", line)
		}
		m := mount{kind: f[end+1], super: strings.Split(f[end+3], ",")}
		m.readOnly = slices.Contains(strings.Split(f[5], ","), "ro") || slices.Contains(m.super, "ro")
		var ok1, ok2 bool
		m.root, ok1 = unescape(f[3])
		m.point, ok2 = unescape(f[4])
		if !ok1 || !ok2 || !strings.HasPrefix(m.point, "/") {
			return nil, fmt.Errorf("invalid line of mountinfo: %.200q", line)
		}
		all = append(all, m)
	}
	return all, nil
}

// unescape decodes spaces, tabs, line breaks and backslashes. In mountinfo each of them is a
// backslash and three octal digits.
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

// folder returns the path at which the mount shows the given group. The result is false if the
// mount does not show the group. In a container the root of a mount can be any group. If both paths
// begin above the cgroup namespace, their relation is unknown, and the result is false.
func (m mount) folder(group string) (string, bool) {
	if path.Clean("/"+m.root) != m.root || path.Clean("/"+group) != group {
		return "", false
	}
	rest, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(m.root, "/")+"/")
	return filepath.Join(m.point, rest), ok
}

// count returns the number that follows a key. Each line of the text is "key number", as in
// memory.events.
func count(text, key string) uint64 {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(n, "\n"), 10, 64)
			return n
		}
	}
	return 0
}

// processes parses cgroup.procs, which has one PID per line. A PID of 0 is a process in another PID
// namespace. Such processes are left out.
func processes(text string) ([]int, error) {
	var all []int
	for line := range strings.Lines(text) {
		pid, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("invalid process id: %.200q", line)
		}
		if pid > 0 {
			all = append(all, int(pid))
		}
	}
	return all, nil
}
