package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
)

// seal returns the sealed secrets of a new workspace, sorted by name, and their names.
func (m *Manager) seal(id string, some, always []secret.Secret) (sealed []store.Secret, names []store.SecretName, err error) {
	all := slices.Concat(some, always)
	if len(all) == 0 {
		return nil, nil, nil
	}
	if len(all) > secret.MaxCount {
		return nil, nil, fault.New(fault.Invalid, "keep secrets", "", "there are %d, more than %d", len(all), secret.MaxCount)
	}
	key, err := secret.OpenKey(m.Dirs.State)
	if err != nil {
		return nil, nil, err
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b secret.Secret) int { return strings.Compare(a.Name, b.Name) })
	for i, one := range all {
		if err := one.Check(); err != nil {
			return nil, nil, err
		}
		if i > 0 && all[i-1].Name == one.Name {
			return nil, nil, fault.New(fault.Invalid, "keep secret", one.Name, "two secrets have this name")
		}
		sealed = append(sealed, store.Secret{Name: one.Name, Source: string(one.Source), Sealed: key.Seal(id, one)})
		names = append(names, store.SecretName{
			Name: one.Name, Source: string(one.Source),
			Always: slices.ContainsFunc(always, func(s secret.Secret) bool { return s.Name == one.Name }),
		})
	}
	return sealed, names, nil
}

// reseal returns the secrets of a workspace, sealed for the fork with the given ID.
func (m *Manager) reseal(ctx context.Context, source store.Workspace, id string) (sealed []store.Secret, err error) {
	opened, key, err := m.opened(ctx, source)
	for _, one := range opened {
		sealed = append(sealed, store.Secret{Name: one.Name, Source: string(one.Source), Sealed: key.Seal(id, one)})
	}
	return sealed, err
}

// longestPath is the maximum length of a path, in bytes. A path can't contain a longer secret.
const longestPath = 8192

// redactor returns a redactor that replaces the workspace's secrets in paths.
func (m *Manager) redactor(ctx context.Context, w store.Workspace) (*secret.Redactor, error) {
	opened, _, err := m.opened(ctx, w)
	var values []secret.Value
	for _, one := range opened {
		if len(one.Value.Reveal()) <= longestPath {
			values = append(values, one.Value)
		}
	}
	return secret.NewRedactor(values...), err
}

// opened returns the secrets of a workspace, and the key that seals them.
func (m *Manager) opened(ctx context.Context, w store.Workspace) ([]secret.Secret, *secret.Key, error) {
	if len(w.Spec.Secrets) == 0 {
		return nil, nil, nil
	}
	stored, err := m.Store.Secrets(ctx, w.ID)
	if err != nil {
		return nil, nil, err
	}
	key, err := secret.OpenKey(m.Dirs.State)
	if err != nil {
		return nil, nil, err
	}
	var all []secret.Secret
	for _, one := range stored {
		opened, err := key.Open(w.ID, secret.Secret{Name: one.Name, Source: secret.Source(one.Source)}, one.Sealed)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, opened)
	}
	return all, key, nil
}
