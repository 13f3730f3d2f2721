// Package fault is the one error type of pyro and its tables.
//
// An [Error] says what was being done (Op), to what (Subject), why it went wrong (Err), what sort of failure that is (Kind) and what the user can run
// to mend it (Hint). Kinds map to exit codes, HTTP statuses and RPC codes in one place, tables.go. Errors are returned, and logged or printed once,
// at the edge.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what sort of failure an error is. The strings are part of the JSON contract.
type Kind string

// The kinds, from the caller's mistakes to pyro's own.
const (
	Invalid      Kind = "invalid_argument"    // the request can't be right, whatever the state
	NotFound     Kind = "not_found"           // the named thing does not exist
	Exists       Kind = "already_exists"      // the named thing exists already
	Precondition Kind = "failed_precondition" // right request, wrong state
	Permission   Kind = "permission_denied"   // the host refuses
	Exhausted    Kind = "resource_exhausted"  // a bound, a quota or the disk is at its end
	Canceled     Kind = "canceled"            // the caller gave up
	Timeout      Kind = "timeout"             // a time limit was over
	Unavailable  Kind = "unavailable"         // something needed is missing or does not answer
	Unsupported  Kind = "unsupported"         // this driver, host or release can't do it
	Corrupt      Kind = "corrupt"             // stored data are not what was stored
	Internal     Kind = "internal"            // a fault of pyro itself
)

// Error is the one error type. Any field may be empty.
type Error struct {
	Op      string // what was being done: "pull environment"
	Subject string // to what: "debian:12"
	Kind    Kind
	Err     error  // the cause
	Hint    string // a command or a step that mends it, without a full stop

	steps []Step // the same with its actions, if it has any
}

// Error gives `op "subject": cause`, without the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Subject != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%q", e.Subject)
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(once(e.Err.Error(), e.Subject))
	}
	if b.Len() == 0 {
		return string(KindOf(e))
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of a kind whose cause is a message.
func New(kind Kind, op, subject, format string, args ...any) *Error {
	return &Error{Op: op, Subject: subject, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Newf makes an error of a kind whose cause is a message. Callers that know the operation and its
// subject wrap it, or use [New].
func Newf(kind Kind, format string, args ...any) *Error {
	return New(kind, "", "", format, args...)
}

// Wrap says what was being done when err came. The kind and the hint of err stay visible through KindOf and HintOf.
// Wrap of nil is nil.
func Wrap(err error, op, subject string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Subject: subject, Err: err}
}

// WithHint sets the hint and returns the error, for use at the place where it is made. Where an argument is an [Action], people are told a command and agents a tool.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint, e.steps = fmt.Sprintf(format, args...), stepsOf(format, args)
	return e
}

// HintOf gives the outermost hint in err's chain, or "".
func HintOf(err error) string {
	if e := hinting(err); e != nil {
		return e.Hint
	}
	return ""
}

// hinting is the outermost error in err's chain that has a hint; nil if there is none.
func hinting(err error) *Error {
	for e := (*Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Hint != "" {
			return e
		}
		if e.Err == nil {
			break
		}
	}
	return nil
}
