//go:build machine

package qemu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/machinetest"
)

// TestConfinement inspects a running machine's QEMU process from the host.
func TestConfinement(t *testing.T) {
	root := machinetest.Debian(t)
	s := startSmall(t, driverIn(t, machine.TCG, machinetest.SharedDirs(t)), root)
	s.works(t)
	proc := fmt.Sprintf("/proc/%d", s.PID())

	status := statusOf(t, proc)
	for _, id := range []string{"Uid", "Gid"} {
		for _, n := range strings.Fields(status[id]) {
			if n == "0" {
				t.Errorf("%s: %s: it is root on the host", id, status[id])
			}
		}
	}
	if status["Groups"] != "" && os.Getuid() == 0 {
		t.Errorf("it is in the groups %s", status["Groups"])
	}
	if status["Seccomp"] != "2" || status["NoNewPrivs"] != "1" {
		t.Errorf("Seccomp %s, NoNewPrivs %s: it has no system call filter", status["Seccomp"], status["NoNewPrivs"])
	}
	// Only CAP_SYS_CHROOT; with other capabilities QEMU could use a mount to leave its root.
	if status["CapEff"] != "0000000000040000" {
		t.Errorf("CapEff %s: it has other capabilities than the one to change its root", status["CapEff"])
	}
	if status["CoreDumping"] == "1" {
		t.Error("it dumps core")
	}

	for _, namespace := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		own, err1 := os.Readlink("/proc/self/ns/" + namespace)
		its, err2 := os.Readlink(proc + "/ns/" + namespace)
		if err1 != nil || err2 != nil || own == its {
			t.Errorf("%s: ours %q, its %q; %v %v", namespace, own, its, err1, err2)
		}
	}
	mounts, err := os.ReadFile(proc + "/mountinfo")
	if err != nil || strings.Count(string(mounts), "\n") != 1 || !strings.Contains(string(mounts), " / / ro,nosuid,nodev,noexec") || !strings.Contains(string(mounts), " - tmpfs tmpfs ") {
		t.Errorf("its mount namespace holds %v\n%s", err, mounts)
	}
	if found, err := os.ReadDir(proc + "/root"); err != nil && !errors.Is(err, fs.ErrNotExist) || len(found) > 0 {
		t.Errorf("its root holds %v, %v", found, err)
	}
	if limits, err := os.ReadFile(proc + "/limits"); err != nil || !strings.Contains(string(limits), "Max core file size        0                    0") {
		t.Errorf("%v: %s", err, limits)
	}

	id, _, _ := strings.Cut(string(mounts), " ")
	for file, link := range openFiles(t, proc) {
		if link == "/" && strings.Contains(readFile(t, proc+"/fdinfo/"+file), "\nmnt_id:\t"+id+"\n") { // QEMU's own root
			continue
		}
		if !s.mayHave(link, root) {
			t.Errorf("it has %s open", link)
		}
	}
}

func statusOf(t *testing.T, proc string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// openFiles lists the open files of a process by descriptor number.
func openFiles(t *testing.T, proc string) map[string]string {
	t.Helper()
	links := map[string]string{}
	files, err := filepath.Glob(proc + "/fd/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if link, err := os.Readlink(f); err == nil {
			links[filepath.Base(f)] = link
		}
	}
	return links
}

// mayHave reports whether QEMU is allowed to have a file open: its template, its image, deleted
// files and folders, unnamed files, sockets and pipes.
func (s *started) mayHave(link string, root machine.Root) bool {
	switch {
	case link == root.Image, link == "/dev/null", strings.HasSuffix(link, " (deleted)"):
		return true
	case strings.HasPrefix(link, "socket:"), strings.HasPrefix(link, "pipe:"), strings.HasPrefix(link, "anon_inode:"), strings.HasPrefix(link, "/memfd:"):
		return true
	}
	return strings.Contains(link, "/templates/")
}
