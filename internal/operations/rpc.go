package operations

import (
	"context"
	"io"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/internal/rpc"
)

// ServeRPC serves JSON-RPC 2.0 to one program on a pair of streams, one message per line. See
// docs/rpc.md. When the input ends, it finishes the running calls. When no process reads the output
// any more, or ctx ends, it cancels them. It returns when no call runs, and closes both streams.
// Workspaces, with their services and shells, keep running.
func ServeRPC(ctx context.Context, p *pyro.Pyro, in io.ReadCloser, out io.WriteCloser) error {
	return rpc.NewServer(methods(p)).Serve(ctx, in, out)
}

// methods returns the methods of all operations. SDKs rely on the methods in testdata/rpc.golden.
func methods(p *pyro.Pyro) (all []rpc.Method) {
	for _, o := range table("") {
		all = append(all, o.do.method(o, p))
	}
	return all
}
