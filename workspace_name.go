package pyro

import "context"

// named makes a request's id that of the workspace whose name it is. An id stays as it is, and so
// does a text that is neither: the operation reports that. Precondition: several have the name.
func (p *Pyro) named(ctx context.Context, id *string) error {
	found, err := p.workspaces.IDOf(ctx, *id)
	if err != nil {
		return because(ctx, err)
	}
	*id = found
	return nil
}
