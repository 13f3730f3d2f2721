//go:build machine

package test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkspaceCopy copies trees in both directions, to paths inside and outside of /workspace.
func TestWorkspaceCopy(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	seed := tree(t)
	os.Remove(filepath.Join(seed, "pipe"))
	big := filepath.Join(seed, "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("0123456789abcdef"), 4<<20), 0o640); err != nil {
		t.Fatal(err)
	}
	want := listed(t, seed)
	for _, at := range []string{"/opt/new/tree", "/workspace/tree"} {
		c := p.object("workspace", "cp", seed, id+":"+at)
		if c["dest"] != at || c["bytes"].(float64) < 64<<20 {
			t.Errorf("%s: %v", at, c)
		}
		if got := p.shell(id, "cd "+at+" && "+listing); got != want {
			t.Errorf("%s became\n%s\nnot\n%s", at, got, want)
		}
		out := filepath.Join(t.TempDir(), "out")
		p.must("workspace", "cp", id+":"+at, out)
		if got := listed(t, out); got != want {
			t.Errorf("%s came back as\n%s\nnot\n%s", at, got, want)
		}
		p.must("workspace", "cp", id+":"+at+"/.", out) // merged into itself
		if got := listed(t, out); got != want {
			t.Errorf("%s merged is\n%s\nnot\n%s", at, got, want)
		}
	}
	if got := p.shell(id, "find /opt/new ! -user 0 | wc -l"); got != "0\n" {
		t.Errorf("%s files do not belong to root", got)
	}
	p.must("workspace", "cp", "--owner", "1000:100", big, id+":/opt/new/")
	if got := p.shell(id, "stat -c %u:%g:%a /opt/new/big"); got != "1000:100:640\n" {
		t.Errorf("the owner and mode are %q", got)
	}

	// Links to folders, including absolute links, are followed within the machine.
	p.shell(id, "mkdir -p /srv/real && ln -s /srv/real /opt/link && ln -s /../../../srv/real /workspace/link")
	p.must("workspace", "cp", big, id+":/opt/link/one")
	p.must("workspace", "cp", big, id+":/workspace/link")
	if got := p.shell(id, "ls /srv/real"); got != "big\none\n" {
		t.Errorf("in the target of the links are %q", got)
	}
	p.must("workspace", "sync", "push", id, filepath.Join(seed, "src"), "--dest", "/etc/pushed")
	if got := p.shell(id, "cat /etc/pushed/a.txt"); got != "one\ntwo\nthree\n" {
		t.Errorf("pushed %q", got)
	}

	// A hostile machine writes nothing outside of the destination.
	out := t.TempDir()
	p.shell(id, `mkdir -p /tmp/evil/x && cd /tmp/evil && ln -s `+out+` up && ln -s ../../.. rel && echo x >x/f`)
	p.must("workspace", "cp", id+":/tmp/evil", filepath.Join(out, "in"))
	p.shell(id, `cd /tmp/evil && rm up rel && mkdir up rel && echo evil >up/evil && echo evil >rel/evil`)
	p.fails(5, "it exists and is not a directory", "workspace", "cp", id+":/tmp/evil/.", filepath.Join(out, "in"))
	if entries, _ := os.ReadDir(out); len(entries) != 1 {
		t.Errorf("outside are %v", entries)
	}
	r := p.run(nil, "workspace", "cp", id+":/proc/self", "-")
	for entries := tar.NewReader(strings.NewReader(r.stdout)); ; {
		h, err := entries.Next()
		if err != nil {
			break
		}
		if strings.Contains(h.Name, "mem") {
			t.Errorf("the archive has %s", h.Name)
		}
	}
}

// TestCopyWithoutPrograms copies to and from a machine that has no programs.
func TestCopyWithoutPrograms(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	id := p.create()
	p.shell(id, "rm -rf --no-preserve-root --one-file-system /bin /sbin /usr /lib /lib64 /etc 2>/dev/null || true")
	from := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.must("workspace", "cp", from, id+":/app/bin/file")
	p.must("workspace", "cp", id+":/app", from+"-back")
	if b, err := os.ReadFile(from + "-back/bin/file"); string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}
