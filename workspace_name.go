package pyro

import "context"

// named replaces the name of a workspace in a request by the workspace's ID. It does not change an
// ID or an unknown name: the operation itself reports an unknown name. If several workspaces have
// the name, the error has the kind Precondition.
func (p *Pyro) named(ctx context.Context, id *string) error {
	found, err := p.workspaces.IDOf(ctx, *id)
	if err != nil {
		return causeOf(ctx, err)
	}
	*id = found
	return nil
}
