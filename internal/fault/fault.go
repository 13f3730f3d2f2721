// Package fault is pyro's error type with its tables of codes.
//
// An [Error] has an operation (Op), its target (Subject), a cause (Err), a Kind, and a Hint with
// the command or step that fixes it. tables.go maps kinds to exit codes, HTTP statuses and RPC
// codes. Functions only return errors. The outermost caller logs or prints an error once.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is the kind of an error. The strings are part of the JSON contract. Like a syscall.Errno, a
// Kind is itself an error, so that errors.Is(err, NotFound) compares kinds.
type Kind string

// Error returns the name of the kind.
func (k Kind) Error() string { return string(k) }

// Kinds of errors, from the caller's mistakes to pyro's own.
const (
	Invalid      Kind = "invalid_argument"    // the request can never succeed.
	NotFound     Kind = "not_found"           // the named thing does not exist.
	Exists       Kind = "already_exists"      // the named thing already exists.
	Precondition Kind = "failed_precondition" // the current state does not allow the request.
	Permission   Kind = "permission_denied"   // the host denies the access.
	Exhausted    Kind = "resource_exhausted"  // a limit, a quota or the disk is exhausted.
	Canceled     Kind = "canceled"            // the caller cancelled the operation.
	Timeout      Kind = "timeout"             // a time limit was exceeded.
	Unavailable  Kind = "unavailable"         // a dependency is missing or does not answer.
	Unsupported  Kind = "unsupported"         // this driver, host or version can't do it.
	Corrupt      Kind = "corrupt"             // stored data is damaged.
	Internal     Kind = "internal"            // a bug in pyro.
)

// Error is pyro's error type. All fields are optional.
type Error struct {
	Op      string // the operation: "pull environment"
	Subject string // its target: "debian:12"
	Kind    Kind
	Err     error  // the cause
	Hint    string // a command or a step that fixes the error, without a full stop

	steps []Step // the hint with its actions, if it has any
}

// Error returns `op "subject": cause`, without the hint.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool {
	kind, ok := target.(Kind)
	return ok && kind == KindOf(e)
}

// New returns an error of a kind with a formatted cause.
func New(kind Kind, op, subject, format string, args ...any) *Error {
	return &Error{Op: op, Subject: subject, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Newf returns an error of a kind with a formatted cause. Callers that know the operation and its
// subject wrap the error or use [New].
func Newf(kind Kind, format string, args ...any) *Error {
	return New(kind, "", "", format, args...)
}

// Wrap adds an operation and its subject to err. KindOf and HintOf still find the kind and the hint
// of err. If err is nil, Wrap returns nil.
func Wrap(err error, op, subject string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Subject: subject, Err: err}
}

// WithHint sets the hint and returns the error. If an argument is an [Action], users see the
// action's command, and agents see the action's tool.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint, e.steps = fmt.Sprintf(format, args...), stepsOf(format, args)
	return e
}

// HintOf returns the outermost hint in err's chain, or "".
func HintOf(err error) string {
	if e := hinting(err); e != nil {
		return e.Hint
	}
	return ""
}

// hinting returns the outermost error in err's chain that has a hint, or nil.
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
