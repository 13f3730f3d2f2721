package debian

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// KernelPackage downloads the cloud kernel package of Debian 12 to dir, and returns the path of the
// package. It does not need root and installs nothing. It uses its own package lists, so the host's
// lists and installed packages do not matter.
func KernelPackage(ctx context.Context, dir string, report progress.Func) (string, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fault.New(fault.Unavailable, "find", tool, "not installed")
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return "", notInstalled(keyring, "debian-archive-keyring")
	}
	apt, err := newApt(dir)
	if err != nil {
		return "", err
	}
	report.Phase("fetching package lists", "guest kernel")
	if _, err := apt.run(ctx, "apt-get", "update", "--error-on=any"); err != nil {
		return "", err
	}
	meta := "linux-image-cloud-" + runtime.GOARCH
	depends, err := apt.run(ctx, "apt-cache", "depends", meta)
	if err != nil {
		return "", err
	}
	match := dependsOnImage().FindStringSubmatch(depends)
	if match == nil {
		return "", fault.New(fault.Unavailable, "resolve", meta, "it does not depend on a kernel image")
	}
	report.Phase("downloading the kernel", match[1])
	if _, err := apt.run(ctx, "apt-get", "download", match[1]); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, "linux-image-*.deb"))
	if err != nil || len(found) != 1 {
		return "", fault.New(fault.Unavailable, "download", match[1], "apt-get left no package")
	}
	return found[0], nil
}

var dependsOnImage = lazyregexp.New(`(?m)^\s*\|?Depends:\s+(linux-image-[a-zA-Z0-9.+~-]+)\s*$`)

// apt runs the host's apt with separate state in dir. The host's proxies and mirror credentials
// still apply.
type apt struct{ dir string }

func newApt(dir string) (*apt, error) {
	for _, folder := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	var lines strings.Builder
	for _, s := range Sources("/") {
		lines.WriteString(s.Line())
	}
	for name, text := range map[string]string{"sources.list": lines.String(), "status": "", "apt.conf": fmt.Sprintf(aptConfig, dir, runtime.GOARCH)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return &apt{dir}, nil
}

// aptConfig disables the sandbox user of apt, because that user has no access to the directory. It
// also disables the host's hooks, which must not run after an update of these private lists.
const aptConfig = `
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
Dir::State "%[1]s/state";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Architecture "%[2]s";
APT::Architectures { "%[2]s"; };
APT::Default-Release "";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
`

func (a *apt) run(ctx context.Context, tool string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := runProcess(ctx, append([]string{tool}, args...), &syscall.SysProcAttr{}, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = a.dir, append(environ(a.dir), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"))
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
	})
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		said := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", explain(tool+" "+args[0], err, strings.Join(said[max(0, len(said)-5):], "; "))
	}
	return stdout.String(), nil
}

// Unpack writes the files of a Debian package to out, as a tar archive.
func Unpack(ctx context.Context, deb string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return explain("dpkg-deb", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
