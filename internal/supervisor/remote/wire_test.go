package remote

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
)

func TestErrorsRoundTrip(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 16<<10) }
	for _, text := range []string{"", "plain", "a \"quoted\" <b> & c", "line\nand\r\tline", "\x00\x01\x7f\x80\xff", "ü\u2028\u0085", long("x"), long("<"), long("\x01"), long("ü"), long("\xff")} {
		err := fault.Wrap(fault.New(fault.Exists, "write", "in", "%s", text).WithHint("mend %s", text), "copy", text)
		for way, got := range map[string]error{"header": throughHeader(t, err), "Connect": throughConnect(t, err)} {
			if fault.KindOf(got) != fault.Exists {
				t.Errorf("%s of %.20q…: %s: %.100v", way, text, fault.KindOf(got), got)
			}
			if len(text) < 100 && utf8.ValidString(text) && fault.Printable(text) == text && (got.Error() != err.Error() || fault.HintOf(got) != fault.HintOf(err)) {
				t.Errorf("%s: got  %q, hint %q\nwant %q, hint %q", way, got, fault.HintOf(got), err, fault.HintOf(err))
			}
		}
	}
	if ToWire(nil) != nil || fromWire(t.Context(), nil) != nil {
		t.Error("no error became one")
	}
	if err := fromWire(t.Context(), errors.New("cut")); fault.KindOf(err) != fault.Unavailable || fault.HintOf(err) == "" {
		t.Errorf("a connection that broke: %v", err)
	}
	if err := fromWire(t.Context(), connect.NewWireError(connect.CodeNotFound, errors.New("none"))); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an error of Connect's own: %v", err)
	}
}

// throughConnect encodes and decodes an error as a Connect call does.
func throughConnect(t *testing.T, err error) error {
	t.Helper()
	var sent *connect.Error
	if !errors.As(ToWire(err), &sent) {
		t.Fatal("no error of Connect's")
	}
	got := connect.NewWireError(sent.Code(), errors.New(sent.Message()))
	for name, values := range sent.Meta() {
		got.Meta()[name] = values
	}
	return fromWire(t.Context(), got)
}

// throughHeader encodes and decodes an error as an HTTP header does.
func throughHeader(t *testing.T, err error) error {
	t.Helper()
	text := EncodeError(err)
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("%.60q can't be in a header", text)
	}
	got, ok := DecodeError(text)
	if !ok {
		t.Errorf("%.60q… of %d bytes is not read again", text, len(text))
		return nil
	}
	return got
}

func FuzzErrorsOnTheWire(f *testing.F) {
	f.Add("write", "file", "there is one", "remove it")
	f.Add("", "\x7f", strings.Repeat("<", 9000), "\xff\u0085")
	f.Fuzz(func(t *testing.T, op, subject, text, hint string) {
		err := fault.New(fault.Precondition, op, subject, "%s", text)
		err.Hint = hint
		if got := throughHeader(t, err); fault.KindOf(got) != fault.Precondition {
			t.Errorf("%s", fault.KindOf(got))
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add(EncodeError(errors.New("x")))
	f.Add(`{"kind":"","message":1}`)
	f.Add(strings.Repeat("[", 10000))
	f.Fuzz(func(t *testing.T, header string) {
		if err, ok := DecodeError(header); ok != (err != nil) || ok && fault.KindOf(err) == "" {
			t.Errorf("%v, %v", err, ok)
		}
	})
}
