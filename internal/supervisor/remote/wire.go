package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Sizes of the HTTP/2 connection, the same on both ends.
const (
	MaxFrame      = 256 << 10
	ReceiveBuffer = 1 << 20  // of what came for a call and was not taken
	SharedBuffer  = 64 << 20 // of all calls: one that is not taken holds up no other
)

// reportHeader carries an error, see EncodeError, beside what Connect says of it.
const reportHeader = "Pyro-Error"

// maxReport bounds it.
const maxReport = 96 << 10

// ToWire gives an error of an operation the form in which it leaves a supervisor, with kind, hint and all.
func ToWire(err error) error {
	if err == nil {
		return nil
	}
	var e *connect.Error
	if errors.As(err, &e) {
		return err
	}
	e = connect.NewError(connect.Code(fault.RPCCode(fault.KindOf(err))), errors.New(fault.Printable(err.Error())))
	e.Meta().Set(reportHeader, EncodeError(err))
	return e
}

// fromWire is the error that a call gave, as it was.
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
	if told, ok := DecodeError(e.Meta().Get(reportHeader)); ok {
		return told
	}
	if !connect.IsWireError(err) {
		return gone(err)
	}
	return &fault.Error{Kind: fault.FromRPC(uint32(e.Code())), Err: errors.New(e.Message())}
}

// gone says that the supervisor has ended, or is about to.
func gone(err error) error {
	return fault.Newf(fault.Unavailable, "its supervisor is gone: %w", err).WithHint("%s tells why; %s starts it again",
		fault.Act("workspace_status", "pyro workspace status"), fault.Act("workspace_start", "pyro workspace start"))
}

// EncodeError writes an error into a header, in a form that any header can carry.
func EncodeError(err error) string {
	r := fault.WireOf(err)
	r.Op, r.Subject, r.Message, r.Hint = cut(r.Op), cut(r.Subject), cut(r.Message), cut(r.Hint)
	if steps, _ := json.Marshal(r.Steps); len(steps) > maxPart { // the hint has them too, as commands
		r.Steps = nil
	}
	b, _ := json.Marshal(r) // strings always marshal
	return base64.StdEncoding.EncodeToString(b)
}

// maxPart bounds each part of an error on its way, in bytes. JSON makes at most six of one, and base64 four of three.
const maxPart = 2 << 10

// cut bounds a text, at the end of a character.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxPart {
		return text
	}
	text = text[:maxPart]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}

// DecodeError reads one that was written so.
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
