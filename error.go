package pyro

import "github.com/pyro-mcp/pyro/internal/fault"

// Error is the one error type of pyro. Its fields are Op, what was being done; Subject, to what; Kind; Err, the cause; and Hint, a command or a step that
// mends it. Its JSON form is {"error": {"kind", "message", "op", "subject", "hint"}}.
type Error = fault.Error

// Kind says what sort of failure an error is.
type Kind = fault.Kind

// The kinds, from the caller's mistakes to pyro's own.
const (
	Invalid      = fault.Invalid      // the request can't be right, whatever the state
	NotFound     = fault.NotFound     // the named thing does not exist
	Exists       = fault.Exists       // the named thing exists already
	Precondition = fault.Precondition // right request, wrong state
	Permission   = fault.Permission   // the host refuses
	Exhausted    = fault.Exhausted    // a bound, a quota or the disk is at its end
	Canceled     = fault.Canceled     // the caller gave up
	Timeout      = fault.Timeout      // a time limit was over
	Unavailable  = fault.Unavailable  // something needed is missing or does not answer
	Unsupported  = fault.Unsupported  // this driver, host or release can't do it
	Corrupt      = fault.Corrupt      // stored data are not what was stored
	Internal     = fault.Internal     // a fault of pyro itself
)

// KindOf gives the kind of any error that pyro returned; "" for nil.
func KindOf(err error) Kind { return fault.KindOf(err) }

// toListEnvironments is what tells which environments there are.
var toListEnvironments = fault.Act("vm_list_environments", "pyro env list")

// HintOf gives a command or a step that mends err, or "".
func HintOf(err error) string { return fault.HintOf(err) }
