package fault

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

// causes maps errors of the standard library and the kernel, which carry no kind of their own.
var causes = []struct {
	err  error
	kind Kind
}{
	{context.Canceled, Canceled},
	{context.DeadlineExceeded, Timeout},
	{syscall.ENOSPC, Exhausted},
	{syscall.EDQUOT, Exhausted},
	{syscall.EMFILE, Exhausted},
	{syscall.ENFILE, Exhausted},
	{syscall.ENOMEM, Exhausted},
	{syscall.E2BIG, Invalid},
	{fs.ErrNotExist, NotFound},
	{fs.ErrExist, Exists},
	{fs.ErrPermission, Permission},
}

// KindOf gives the outermost kind set in err's chain, else what the cause itself tells, else Internal. KindOf(nil) is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	for e, rest := (*Error)(nil), err; errors.As(rest, &e); rest = e.Err {
		if e.Kind != "" {
			return e.Kind
		}
		if e.Err == nil {
			break
		}
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.kind
		}
	}
	return Internal
}

// ExitFailure is the exit code of `pyro run` and `pyro workspace exec` for pyro's own failures: every other code belongs to the command that was run.
const ExitFailure = 125

// ExitTimeout is their exit code when the command was ended by its time limit.
const ExitTimeout = 124

type codes struct {
	exit int    // of the pyro commands that run no command of the user's
	http int    // status
	rpc  uint32 // gRPC and Connect code
}

var table = map[Kind]codes{
	Invalid:      {2, 400, 3},
	NotFound:     {3, 404, 5},
	Exists:       {4, 409, 6},
	Precondition: {5, 409, 9},
	Permission:   {6, 403, 7},
	Exhausted:    {7, 429, 8},
	Unsupported:  {8, 501, 12},
	Unavailable:  {9, 503, 14},
	Corrupt:      {10, 500, 15},
	Timeout:      {ExitTimeout, 504, 4},
	Canceled:     {130, 499, 1},
	Internal:     {1, 500, 13},
}

// Kinds gives every kind that the tables know, in no order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(table))
	for k := range table {
		kinds = append(kinds, k)
	}
	return kinds
}

func codesOf(k Kind) codes {
	c, ok := table[k]
	if !ok {
		return table[Internal]
	}
	return c
}

// ExitCode is the exit code for err: 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return codesOf(KindOf(err)).exit
}

// HTTPStatus is the HTTP status for a kind.
func HTTPStatus(k Kind) int { return codesOf(k).http }

// RPCCode is the gRPC and Connect code for a kind.
func RPCCode(k Kind) uint32 { return codesOf(k).rpc }

// FromRPC is the kind for a gRPC or Connect code, Internal for one that no kind has.
func FromRPC(code uint32) Kind {
	for k, c := range table {
		if c.rpc == code {
			return k
		}
	}
	return Internal
}
