// Package secret holds values that nobody may see who need not: as a type that hides itself, sealed for the disk, and hidden in what programs print.
package secret

import (
	"fmt"
	"log/slog"
	"regexp"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Hidden is printed in the place of a value.
const Hidden = "[REDACTED]"

// The bounds of what can be a secret.
const (
	MaxName  = 64       // characters
	MaxBytes = 64 << 10 // of a value
	MaxCount = 64       // of one owner
)

// Value is a secret text. However it is printed, logged or written as JSON, it hides itself.
type Value struct {
	text *string // by a pointer, so that printing what holds it shows no text either
}

// New makes a text a secret.
func New(text string) Value { return Value{&text} }

// Reveal gives the text.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

func (Value) String() string               { return Hidden }
func (Value) GoString() string             { return Hidden }
func (Value) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// UnmarshalText makes a text that comes from outside a secret.
func (v *Value) UnmarshalText(b []byte) error {
	*v = New(string(b))
	return nil
}

// IsZero tells whether there is no value at all.
func (v Value) IsZero() bool { return v.text == nil }

// Format hides the value whatever the verb.
func (Value) Format(f fmt.State, _ rune) { f.Write([]byte(Hidden)) }

// LogValue hides the value from logs.
func (Value) LogValue() slog.Value { return slog.StringValue(Hidden) }

// Source says where a value came from.
type Source string

// The sources.
const (
	Literal Source = "literal" // it was given as it is
	File    Source = "file"    // a file on the host was read
)

// Secret is a value with a name.
type Secret struct {
	Name   string
	Source Source
	Value  Value
}

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z_][A-Za-z0-9_]{0,%d}$`, MaxName-1))

// CheckName refuses what can't be the name of a secret, or of an environment variable.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fault.Newf(fault.Invalid, "%q is no name of an environment variable: letters, digits and underscores, at most %d, with no digit first",
			name[:min(len(name), 2*MaxName)], MaxName)
	}
	return nil
}

// Check refuses a secret that can't be kept and given to a program. The error does not tell the value.
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
			return wrong("it holds a NUL, which an environment variable can't")
		}
	}
	return nil
}
