package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
)

// seal gives the secrets of a new workspace as they are kept, sorted by name, and their names.
func (m *Manager) seal(id string, all []secret.Secret) (sealed []store.Secret, names []store.SecretName, err error) {
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
			return nil, nil, fault.New(fault.Invalid, "keep secret", one.Name, "there are two of this name")
		}
		sealed = append(sealed, store.Secret{Name: one.Name, Source: string(one.Source), Sealed: key.Seal(id, one)})
		names = append(names, store.SecretName{Name: one.Name, Source: string(one.Source)})
	}
	return sealed, names, nil
}

// reseal gives the secrets of a workspace as they are kept for a fork of it.
func (m *Manager) reseal(ctx context.Context, source store.Workspace, id string) ([]store.Secret, error) {
	if len(source.Spec.Secrets) == 0 {
		return nil, nil
	}
	kept, err := m.Store.Secrets(ctx, source.ID)
	if err != nil {
		return nil, err
	}
	key, err := secret.OpenKey(m.Dirs.State)
	if err != nil {
		return nil, err
	}
	var sealed []store.Secret
	for _, one := range kept {
		opened, err := key.Open(source.ID, secret.Secret{Name: one.Name, Source: secret.Source(one.Source)}, one.Sealed)
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, store.Secret{Name: one.Name, Source: one.Source, Sealed: key.Seal(id, opened)})
	}
	return sealed, nil
}
