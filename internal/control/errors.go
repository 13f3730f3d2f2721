package control

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// FromHost converts the error of a call to a host agent, with its kind and hint. If the host does
// not answer, the kind is Unavailable.
func FromHost(err error) error {
	var e *connect.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return &fault.Error{Op: "call the host agent", Kind: fault.Unavailable, Err: err}
	}
	f := &fault.Error{Kind: fault.FromRPC(uint32(e.Code())), Err: errors.New(e.Message())}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*pb.ErrorDetail); ok {
				f.Kind, f.Hint = fault.Kind(detail.Kind), detail.Hint // the message contains the operation and its subject
			}
		}
	}
	return f
}
