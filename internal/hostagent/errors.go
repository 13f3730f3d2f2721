package hostagent

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
)

// toWire converts an error to a Connect error. The code follows from the error's kind. An
// ErrorDetail contains the kind and the hint.
func toWire(err error) error {
	if err == nil {
		return nil
	}
	detail := &pb.ErrorDetail{}
	wire := (*connect.Error)(nil)
	if errors.As(err, &wire) {
		if len(wire.Details()) > 0 {
			return err
		}
		detail.Kind = string(fault.FromRPC(uint32(wire.Code())))
		if wire.Code() == connect.CodeUnauthenticated { // no kind has this code
			detail.Kind, detail.Hint = string(fault.Permission), "send the header Authorization: Bearer TOKEN with the token of the host agent"
		}
	} else {
		r := fault.ReportOf(err)
		detail.Kind, detail.Hint, detail.Op, detail.Subject = string(r.Kind), r.Hint, fault.Printable(r.Op), fault.Printable(r.Subject)
		wire = connect.NewError(connect.Code(fault.RPCCode(r.Kind)), errors.New(fault.Printable(r.Message)))
	}
	if d, failed := connect.NewErrorDetail(detail); failed == nil {
		wire.AddDetail(d)
	}
	return wire
}

// errorDetails is an interceptor that applies toWire to the errors of all calls.
type errorDetails struct{}

func (errorDetails) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		return resp, toWire(err)
	}
}

func (errorDetails) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (errorDetails) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error { return toWire(next(ctx, conn)) }
}
