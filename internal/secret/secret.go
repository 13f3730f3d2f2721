// Package secret protects secret values. It has a type that never prints its value, encryption for
// storage, and redaction of program output.
package secret

import (
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lazyregexp"
)

// Hidden is the text that replaces values in output.
const Hidden = "[REDACTED]"

// Limits on secrets.
const (
	MaxName  = 64       // maximum length of a name, in characters
	MaxBytes = 64 << 10 // maximum size of a value, in bytes
	MaxCount = 64       // maximum number of secrets per owner
)

// Value is a secret text. If a Value is printed, logged or encoded, the result is Hidden.
type Value struct {
	text *string // a pointer, so that the text is not shown if an enclosing struct is printed
}

// New returns a Value that contains the text.
func New(text string) Value { return Value{&text} }

// Reveal returns the secret text.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

func (Value) String() string               { return Hidden }
func (Value) GoString() string             { return Hidden }
func (Value) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// UnmarshalText sets the value to the text.
func (v *Value) UnmarshalText(b []byte) error {
	*v = New(string(b))
	return nil
}

// IsZero reports whether the value is not set.
func (v Value) IsZero() bool { return v.text == nil }

// Format prints Hidden for all verbs.
func (Value) Format(f fmt.State, _ rune) { f.Write([]byte(Hidden)) }

// LogValue returns Hidden.
func (Value) LogValue() slog.Value { return slog.StringValue(Hidden) }

// Source is the origin of a secret value.
type Source string

// The possible sources of values.
const (
	Literal Source = "literal" // passed directly
	File    Source = "file"    // read from a file on the host
)

// Secret is a secret value with a name and a source.
type Secret struct {
	Name   string
	Source Source
	Value  Value
}

var nameForm = lazyregexp.New(fmt.Sprintf(`^[A-Za-z_][A-Za-z0-9_]{0,%d}$`, MaxName-1))

// CheckName checks that a name is valid for a secret and for an environment variable.
func CheckName(name string) error {
	if !nameForm().MatchString(name) {
		return fault.Newf(fault.Invalid, "%q is not a valid name of an environment variable: use at most %[2]d letters, digits and underscores, and no digit first",
			name[:min(len(name), 2*MaxName)], MaxName)
	}
	return nil
}

// Check checks that a secret can be stored and passed to a program. The error never contains the
// value.
func (s Secret) Check() error {
	if err := CheckName(s.Name); err != nil {
		return fault.Wrap(err, "use secret", "")
	}
	text := s.Value.Reveal()
	wrong := func(format string, a ...any) error {
		return fault.New(fault.Invalid, "use secret", s.Name, format, a...)
	}
	switch {
	case text == "":
		return wrong("it is empty")
	case len(text) > MaxBytes:
		return wrong("it has %d bytes, more than %d", len(text), MaxBytes)
	case !utf8.ValidString(text):
		return wrong("it is not UTF-8")
	}
	for _, c := range []byte(text) {
		if c == 0 {
			return wrong("it contains a NUL byte, which an environment variable can't contain")
		}
	}
	return nil
}
