package store

import (
	"context"
	"database/sql"
)

// Secret is a secret of a workspace. The value is encrypted.
type Secret struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Sealed []byte `json:"sealed"`
}

// SecretName is the public part of a Secret.
type SecretName struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Always bool   `json:"always,omitempty"` // every program gets the value as the variable of this name
}

// Secrets returns the secrets of a workspace, sorted by name.
func (s *Store) Secrets(ctx context.Context, id string) ([]Secret, error) {
	return collect(ctx, s, func(row row) (one Secret, err error) {
		err = row.Scan(&one.Name, &one.Source, &one.Sealed)
		return one, err
	}, "SELECT name, source, sealed FROM secrets WHERE workspace_id = $1 ORDER BY name", id)
}

func addSecrets(ctx context.Context, tx *sql.Tx, id string, all []Secret) error {
	for _, one := range all {
		_, err := tx.ExecContext(ctx, "INSERT INTO secrets (workspace_id, name, source, sealed) VALUES ($1, $2, $3, $4)", id, one.Name, one.Source, one.Sealed)
		if err != nil {
			return err
		}
	}
	return nil
}
