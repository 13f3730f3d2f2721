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
	supervisorv1 "github.com/pyro-mcp/pyro/internal/gen/supervisor/v1"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// secrets are those of the workspace, and hide them in all that leaves the machine but files.
type secrets struct {
	*secret.Redactor // nil where there are none
	values           map[string]secret.Value
}

// openSecrets opens what the order has sealed. From then on nothing that this process logs shows a value, and no dump of its memory is written.
func openSecrets(o remote.Order) (secrets, error) {
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
	s := secrets{values: map[string]secret.Value{}}
	for _, one := range sealed {
		opened, err := key.Open(o.Workspace.ID, secret.Secret{Name: one.Name, Source: secret.Source(one.Source)}, one.Sealed)
		if err != nil {
			return secrets{}, err
		}
		s.values[one.Name] = opened.Value
	}
	s.Redactor = secret.NewRedactor(slices.Collect(maps.Values(s.values))...)
	slog.SetDefault(slog.New(slog.NewTextHandler(hiding{s.Redactor}, nil)))
	return s, nil
}

// hiding is the standard error with values hidden in each piece that is written to it, which for a log is one record.
type hiding struct{ *secret.Redactor }

func (h hiding) Write(b []byte) (int, error) {
	_, err := os.Stderr.WriteString(h.Text(string(b)))
	return len(b), err
}

// env gives environment variables that hold secrets, as NAME=VALUE.
func (s secrets) env(wanted []*supervisorv1.SecretEnv) ([]string, error) {
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

// error gives an error that shows no value, of the same kind and with the same hint.
func (s secrets) error(err error) error {
	if err == nil || s.Redactor == nil {
		return err
	}
	if text := s.Text(err.Error()); text != err.Error() {
		return fault.Newf(fault.KindOf(err), "%w", errors.New(text)).WithHint("%s", s.Text(fault.HintOf(err)))
	}
	return err
}
