package daemon

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// secrets are the workspace's secrets. They are redacted in all data that leaves the machine,
// except in the content of files.
type secrets struct {
	*secret.Redactor                  // nil if there are no secrets
	names            *secret.Redactor // for names of hosts, which are in lower case; nil if there are no secrets
	values           map[string]secret.Value
}

func newSecrets(values map[string]secret.Value) secrets {
	all := slices.Collect(maps.Values(values))
	return secrets{secret.NewRedactor(all...), secret.NewNameRedactor(all...), values}
}

// openSecrets opens the sealed secrets in the configuration. Afterwards this process logs no secret
// values and writes no core dumps.
func openSecrets(o remote.StartConfig) (secrets, error) {
	sealed := o.Workspace.Secrets
	if len(sealed) == 0 {
		return secrets{}, nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return secrets{}, fault.Wrap(os.NewSyscallError("setrlimit", err), "keep secrets out of core dumps", "")
	}
	key, err := secret.OpenKey(o.Dirs.State)
	if err != nil {
		return secrets{}, err
	}
	values := map[string]secret.Value{}
	for _, one := range sealed {
		opened, err := key.Open(o.Workspace.ID, secret.Secret{Name: one.Name, Source: secret.Source(one.Source)}, one.Sealed)
		if err != nil {
			return secrets{}, err
		}
		values[one.Name] = opened.Value
	}
	s := newSecrets(values)
	slog.SetDefault(slog.New(slog.NewTextHandler(hiding{s.Redactor}, nil)))
	return s, nil
}

// hiding writes to standard error, with secrets redacted in each write. The logger writes one
// record per call.
type hiding struct{ *secret.Redactor }

func (h hiding) Write(b []byte) (int, error) {
	_, err := os.Stderr.WriteString(h.Text(string(b)))
	return len(b), err
}

// env returns environment variables in the form NAME=VALUE, with the values of the wanted secrets.
func (s secrets) env(wanted []program.SecretEnv) ([]string, error) {
	var env []string
	for _, w := range wanted {
		if err := secret.CheckName(w.Env); err != nil {
			return nil, fault.Wrap(err, "use secret", fault.Printable(w.Secret))
		}
		value, ok := s.values[w.Secret]
		if !ok {
			known := "it has none"
			if len(s.values) > 0 {
				known = "it has " + strings.Join(slices.Sorted(maps.Keys(s.values)), ", ")
			}
			return nil, fault.New(fault.NotFound, "use secret", fault.Printable(w.Secret[:min(len(w.Secret), 80)]), "the workspace has no secret of this name; %s", known)
		}
		env = append(env, w.Env+"="+value.Reveal())
	}
	return env, nil
}

func (s secrets) texts(all []string) []string {
	if s.Redactor == nil {
		return all
	}
	var hidden []string
	for _, one := range all {
		hidden = append(hidden, s.Text(one))
	}
	return hidden
}

// error returns err with secrets redacted, and with the same kind and hint.
func (s secrets) error(err error) error {
	if err == nil || s.Redactor == nil {
		return err
	}
	if text := s.Text(err.Error()); text != err.Error() {
		return fault.Newf(fault.KindOf(err), "%w", errors.New(text)).WithHint("%s", s.Text(fault.HintOf(err)))
	}
	return err
}
