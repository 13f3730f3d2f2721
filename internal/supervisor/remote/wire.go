package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/runes"
)

// Sizes for the HTTP/2 connection. Client and server use the same values.
const (
	MaxFrame      = 256 << 10
	ReceiveBuffer = 1 << 20  // unread bytes per call
	SharedBuffer  = 64 << 20 // unread bytes of all calls, so large that one unread call does not delay the others
)

// maxReport is the largest size of an encoded error, in bytes.
const maxReport = 96 << 10

// ToWire returns an error in the form that clients receive. It includes the kind and the hint.
func ToWire(err error) error {
	if err == nil {
		return nil
	}
	var e *connect.Error
	if errors.As(err, &e) {
		return err
	}
	e = connect.NewError(connect.Code(fault.RPCCode(fault.KindOf(err))), errors.New(fault.Printable(err.Error())))
	e.Meta().Set(content.ErrorField, EncodeError(err))
	return e
}

// fromWire returns the original error of a failed call.
func fromWire(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		return gone(err)
	}
	if sent, ok := DecodeError(e.Meta().Get(content.ErrorField)); ok {
		return sent
	}
	if !connect.IsWireError(err) {
		return gone(err)
	}
	return &fault.Error{Kind: fault.FromRPC(uint32(e.Code())), Err: errors.New(e.Message())}
}

// gone returns the error for a supervisor that has ended or is ending.
func gone(err error) error {
	return fault.Newf(fault.Unavailable, "its supervisor is gone: %w", err).WithHint("%s shows why; %s starts it again",
		fault.Act("workspace_status", "pyro workspace status"), fault.Act("workspace_start", "pyro workspace start"))
}

// EncodeError encodes an error for a header or trailer.
func EncodeError(err error) string {
	r := fault.WireOf(err)
	r.Op, r.Subject, r.Message, r.Hint = cut(r.Op), cut(r.Subject), cut(r.Message), cut(r.Hint)
	if steps, _ := json.Marshal(r.Steps); len(steps) > maxPart { // the hint contains the steps too, as commands
		r.Steps = nil
	}
	b, _ := json.Marshal(r) // marshalling strings never fails
	return base64.StdEncoding.EncodeToString(b)
}

// maxPart is the largest size of each part of an encoded error, in bytes. JSON can increase the
// size of a part by a factor of 6, and base64 by another third.
const maxPart = 2 << 10

// cut shortens a text to at most maxPart bytes, without splitting a character.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxPart {
		return text
	}
	return runes.Head(text[:maxPart])
}

// DecodeError decodes an error that EncodeError encoded. ok is false if the header contains none.
func DecodeError(header string) (error, bool) {
	var r fault.Wire
	if header == "" || len(header) > maxReport {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil || json.Unmarshal(b, &r) != nil || r.Kind == "" {
		return nil, false
	}
	return r.Err(), true
}
