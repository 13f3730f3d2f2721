//go:build machine

package test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecrets searches for a secret in all places except the environment of the program that has
// received it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := workspaces(t)
	const token = "hunter2-correct-horse"
	big := strings.Repeat("0123456789abcdef", 4096) // 64 KiB
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	id := p.create("--secret", "TOKEN="+token, "--secret-file", "BIG="+file)
	in := func(flags []string, line string) string {
		t.Helper()
		return p.must(append(append([]string{"workspace", "exec", "-q", id}, flags...), "--", "sh", "-c", line)...)
	}
	with := []string{"--secret-env", "TOKEN", "--secret-env", "BIG=LARGE"}
	if got := in(with, `echo "$TOKEN" ${#TOKEN} ${#LARGE}; echo "$LARGE" | sha256sum | cut -c 1-8; printf %s "$LARGE" | base64 | tail -c 100`); !strings.HasPrefix(got, "[REDACTED] 21 65536\n") || strings.Contains(got, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY") {
		t.Errorf("%q", got)
	}
	if got := in(nil, `env; tr '\0' '\n' </proc/1/environ; grep -r -l -s hunter2-correct /etc /root /run /tmp /var /workspace; true`); strings.Contains(got, "TOKEN") || strings.Contains(got, "hunter2") || strings.Contains(got, "/etc/") {
		t.Errorf("program without the secret: got %q", got)
	}
	shell := p.openShell(id, "--secret-env", "TOKEN=T")
	p.must("workspace", "shell", "write", id, shell, "--input", `for i in $(seq ${#T}); do printf %s "$(echo $T | cut -c $i)"; sleep 0.02; done; echo; test $T = hunter2-correct''-horse && echo same`)
	if seen := p.awaitShell(id, shell, "\nsame"); strings.Contains(seen, token) || !strings.Contains(seen, "[REDACTED]") {
		t.Errorf("output of the shell: got %q", seen)
	}
	p.must("workspace", "snapshot", "create", id, "with", "--full")
	p.must("workspace", "stop", id)
	image := filepath.Join(t.TempDir(), "disk")
	p.must("workspace", "disk", "export", id, "--output", image)
	for _, top := range []string{p.state, image} {
		filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if holds(t, f, token) {
				t.Errorf("%s holds it", path)
			}
			return nil
		})
	}
	if out := p.must("workspace", "logs", id) + p.must("workspace", "status", id, "--json"); strings.Contains(out, token) || strings.Contains(out, big[:100]) {
		t.Errorf("it is in %s", out)
	}
}

// holds reports whether a file contains a text. It does not read the holes in the file.
func holds(t *testing.T, f *os.File, text string) bool {
	t.Helper()
	const seekData, seekHole = 3, 4
	buffer := make([]byte, 1<<20)
	for at := int64(0); ; {
		begin, err := f.Seek(at, seekData)
		if err != nil {
			return false // the file has no more data
		}
		end, err := f.Seek(begin, seekHole)
		if err != nil {
			t.Fatal(err)
		}
		for at = begin; at < end; at += int64(len(buffer) - len(text)) {
			n, _ := f.ReadAt(buffer, at)
			if bytes.Contains(buffer[:n], []byte(text)) {
				return true
			}
		}
		at = end
	}
}
