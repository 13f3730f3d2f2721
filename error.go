package pyro

import "github.com/pyro-mcp/pyro/internal/fault"

// Error is the error type of this package. Op is the operation that failed, and Subject is its
// target. Err is the cause. Hint is a command or an action that fixes the error.
//
// The JSON form is {"error": {"kind", "message", "op", "subject", "hint"}}.
type Error = fault.Error

// Kind is the kind of an error.
type Kind = fault.Kind

// The kinds of errors. KindOf returns the outermost kind of an error. With errors.Is, an error also
// matches the kinds of the errors that it wraps.
const (
	Invalid      = fault.Invalid      // the request can never succeed.
	NotFound     = fault.NotFound     // the named thing does not exist.
	Exists       = fault.Exists       // the named thing exists already.
	Precondition = fault.Precondition // the state does not allow the request.
	Permission   = fault.Permission   // the host denies the access.
	Exhausted    = fault.Exhausted    // a limit or a quota is reached, or the disk is full.
	Canceled     = fault.Canceled     // the caller canceled the operation.
	Timeout      = fault.Timeout      // a time limit was exceeded.
	Unavailable  = fault.Unavailable  // something needed is missing or does not answer.
	Unsupported  = fault.Unsupported  // this driver, host or release can't do it.
	Corrupt      = fault.Corrupt      // stored data is damaged.
	Internal     = fault.Internal     // a bug in pyro.
)

// The kinds as errors, to compare with errors.Is.
var (
	ErrInvalid      error = Invalid
	ErrNotFound     error = NotFound
	ErrExists       error = Exists
	ErrPrecondition error = Precondition
	ErrPermission   error = Permission
	ErrExhausted    error = Exhausted
	ErrCanceled     error = Canceled
	ErrTimeout      error = Timeout
	ErrUnavailable  error = Unavailable
	ErrUnsupported  error = Unsupported
	ErrCorrupt      error = Corrupt
	ErrInternal     error = Internal
)

// KindOf returns the kind of an error of this package, or "" for nil.
func KindOf(err error) Kind { return fault.KindOf(err) }

// HintOf returns a command or an action that fixes err, or "" if pyro knows none.
func HintOf(err error) string { return fault.HintOf(err) }

// toListEnvironments is the action that lists the environments.
var toListEnvironments = fault.Act("vm_list_environments", "pyro env list")
