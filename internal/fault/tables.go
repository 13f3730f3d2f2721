package fault

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

// causes maps errors of the standard library and the kernel to kinds.
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

// KindOf returns the outermost kind in err's chain. If no error in the chain has a kind, KindOf
// derives the kind from the cause; the default is Internal. KindOf(nil) is "".
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
	if kind := Kind(""); errors.As(err, &kind) {
		return kind
	}
	return Internal
}

// ExitFailure is the exit code of `pyro run` and `pyro workspace exec` for pyro's own failures. All
// other codes, except ExitTimeout, come from the user's command.
const ExitFailure = 125

// ExitTimeout is the exit code of these two commands if the user's command exceeded its time limit.
const ExitTimeout = 124

type codes struct {
	exit int    // exit code of pyro's commands that don't run a user's command.
	http int    // HTTP status.
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

// Kinds returns all kinds, in no particular order.
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

// ExitCode returns the exit code for err, or 0 if err is nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return codesOf(KindOf(err)).exit
}

// HTTPStatus returns the HTTP status for a kind.
func HTTPStatus(k Kind) int { return codesOf(k).http }

// RPCCode returns the gRPC and Connect code for a kind.
func RPCCode(k Kind) uint32 { return codesOf(k).rpc }

// FromRPC returns the kind for a gRPC or Connect code, and Internal for an unknown code.
func FromRPC(code uint32) Kind {
	for k, c := range table {
		if c.rpc == code {
			return k
		}
	}
	return Internal
}
