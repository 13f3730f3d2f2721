// Package debian builds root file systems from Debian packages, and downloads Debian's kernel. It
// uses the host's tools and mirrors.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// excludedPaths excludes documentation and translations from environments. They are a third of the
// size. Licences are not excluded.
var excludedPaths = []string{
	"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*", "path-include=/usr/share/locale/locale.alias",
	"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/lintian/*",
}

// cleanupHook removes traces of the host, sets the hostname and /etc/hosts, and deletes files that
// apt and debconf recreate.
const cleanupHook = `rm -f "$1"/etc/resolv.conf "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old &&
echo pyro > "$1"/etc/hostname &&
printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n' > "$1"/etc/hosts &&
echo LANG=C.UTF-8 > "$1"/etc/default/locale`

// Bootstrap writes a Debian 12 root file system to out as a tar archive. The file system contains
// the packages and their dependencies. dir is an empty directory for temporary files. Afterwards it
// can contain files that belong to other users, see [RemoveAll]. Cancelling ctx kills all
// processes.
func Bootstrap(ctx context.Context, packages []string, dir string, out io.Writer, report progress.Func, subject string) error {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return notInstalled("mmdebstrap", "mmdebstrap")
	}
	if _, err := os.Stat(keyring); err != nil {
		return notInstalled(keyring, "debian-archive-keyring")
	}
	if err := CheckUser(); err != nil {
		return err
	}
	sources := Sources("/")
	var host, guest strings.Builder
	for _, s := range sources {
		host.WriteString(s.Line())
	}
	for _, s := range GuestSources(sources) {
		guest.WriteString(s.Line())
	}
	if err := os.WriteFile(filepath.Join(dir, "guest-sources.list"), []byte(guest.String()), 0o644); err != nil {
		return err
	}

	args := []string{"--variant=minbase", "--format=tar", "--include=" + strings.Join(packages, ","),
		"--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"3\"", "--aptopt=Acquire::http::Timeout \"30\"",
		"--aptopt=Acquire::https::Timeout \"30\"", "--aptopt=APT::Install-Recommends \"false\""}
	for _, option := range hostOptions(ctx) {
		args = append(args, "--aptopt="+option)
	}
	for _, option := range excludedPaths {
		args = append(args, "--dpkgopt="+option)
	}
	args = append(args, "--customize-hook="+cleanupHook, "--customize-hook=upload guest-sources.list /etc/apt/sources.list")

	args = append(args, "--mode=root", suite, "-", "-")

	stderr := &phases{report: report, subject: subject}
	// Do not set SOURCE_DATE_EPOCH. If it is set, Python validates compiled files by a hash of
	// their source on every import.
	err = asRoot(ctx, append([]string{program}, args...), func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = dir, environ(dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(host.String()), out, stderr
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return explain("run mmdebstrap", err, stderr.last())
	}
	return nil
}

func notInstalled(what, pkg string) error {
	return fault.New(fault.Unavailable, "find", what, "not installed").WithHint("sudo apt-get install %s", pkg)
}

// explain returns the error of a tool. The kind and the hint of the error depend on the tool's
// output.
func explain(op string, err error, said string) error {
	f := &fault.Error{Op: op, Kind: fault.Internal, Err: fmt.Errorf("%w: %s", err, said)}
	contains := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(said, text) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return err
	case contains("No space left on device"):
		f.Kind, f.Err = fault.Exhausted, fmt.Errorf("%w: %s", syscall.ENOSPC, said)
	case contains("unshare:", "newuidmap"):
		f.Kind, f.Hint = fault.Unavailable, "sudo sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"
	case contains("Could not resolve", "Failed to fetch", "Could not connect", "Unable to connect", "Connection", "Temporary failure", "Unable to locate package"):
		f.Kind, f.Hint = fault.Unavailable, "check that `sudo apt-get update` works"
	}
	return f
}

// phases turns the output of mmdebstrap into progress reports. It stores the last lines for errors.
type phases struct {
	report  progress.Func
	subject string
	rest    []byte
	lines   []string
}

// phaseNames maps the slow steps of mmdebstrap to the names of the reported phases.
var phaseNames = map[string]string{
	"running apt-get update":                          "fetching package lists",
	"downloading packages with apt":                   "downloading packages",
	"extracting archives":                             "unpacking packages",
	"installing essential packages":                   "installing essential packages",
	"installing remaining packages inside the chroot": "installing packages",
	"creating tarball":                                "making the image",
}

const lastLines, maxLine = 8, 1 << 10

func (p *phases) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		end := bytes.IndexAny(p.rest, "\n\r")
		if end < 0 {
			break
		}
		p.line(strings.TrimSpace(string(p.rest[:end])))
		p.rest = p.rest[end+1:]
	}
	p.rest = p.rest[max(0, len(p.rest)-maxLine):]
	return len(b), nil
}

func (p *phases) line(line string) {
	if line == "" {
		return
	}
	if info, ok := strings.CutPrefix(line, "I: "); ok {
		if phase, ok := phaseNames[strings.TrimSuffix(info, "...")]; ok {
			p.report.Phase(phase, p.subject)
		}
		return
	}
	if strings.Contains(line, "unsandboxed as root") || strings.HasPrefix(line, "done") {
		return
	}
	p.lines = append(p.lines, line[:min(len(line), maxLine)])
	p.lines = p.lines[max(0, len(p.lines)-lastLines):]
}

func (p *phases) last() string { return strings.Join(p.lines, "; ") }
