package pyro

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
)

// RunStart describes where a command is about to start: in a machine or on the host.
type RunStart struct {
	ExecutionMode    ExecutionMode `json:"execution_mode"`
	Isolation        Isolation     `json:"isolation"`
	HostCompatReason string        `json:"host_compat_reason,omitempty"` // why no machine could be started, if ExecutionMode is HostCompat.
	EmulatedReason   string        `json:"emulated_reason,omitempty"`    // why IsolationAuto chose emulation, if it did.
	UnlimitedReason  string        `json:"unlimited_reason,omitempty"`   // why the machine's processors and memory are not limited, if so.
}

// RunResult is the outcome of RunInVM.
type RunResult struct {
	Environment string `json:"environment"`
	RunStart
	CommandResult
	TimeLimit string `json:"time_limit,omitempty"` // the limit that was exceeded, if TimedOut is set: timeout_seconds or ttl_seconds

	StartMS float64 `json:"start_ms"` // time from the call to the command's start.
	TotalMS float64 `json:"total_ms"` // time from the call to its return, including the removal of the machine.
	Timings []Phase `json:"timings"`  // the steps of the start, in order.
}

// CommandResult is the outcome of a command in a machine or a workspace.
type CommandResult struct {
	ExitCode int    `json:"exit_code"`         // 124 if the command timed out, 126 or 127 if it could not be executed, 128+n if signal n ended it.
	Signal   int    `json:"signal,omitempty"`  // the signal that ended the command, or 0.
	TimedOut bool   `json:"timed_out"`         // a time limit ended the command.
	NotRun   string `json:"not_run,omitempty"` // why the program could not be executed, for example because it was not found.

	OutOfMemory bool `json:"out_of_memory,omitempty"` // the machine ran out of memory and the kernel killed some of its processes; under gvisor, all of them.
	OutputHeld  bool `json:"output_held,omitempty"`   // a background process kept the output open after the command had ended.

	// Stdout and Stderr are the first MaxOutput bytes of each stream. A stream that is not valid
	// UTF-8 is encoded in base64. The method Output decodes both streams.
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutEncoding  Encoding `json:"stdout_encoding"`
	StderrEncoding  Encoding `json:"stderr_encoding"`
	StdoutTruncated bool     `json:"stdout_truncated,omitempty"` // the command wrote more than MaxOutput bytes
	StderrTruncated bool     `json:"stderr_truncated,omitempty"`

	DurationMS float64 `json:"duration_ms"` // run time of the command itself

	// NetworkRefused is the number of targets that the network policy refused while the command
	// ran, at most 1000. Other programs of the machine count too.
	NetworkRefused  int              `json:"network_refused,omitempty"`
	NetworkRefusals []NetworkRefusal `json:"network_refusals,omitempty"` // the first 8 of these targets
}

// NetworkRefusal is a target that a network policy refused.
type NetworkRefusal struct {
	Target string `json:"target"` // a name or an address, with :PORT if a connection was refused
	Reason string `json:"reason"`
}

// refused sets the fields about the network.
func (r *CommandResult) refused(count int, first []network.Refusal) {
	r.NetworkRefused = count
	for _, f := range first {
		r.NetworkRefusals = append(r.NetworkRefusals, NetworkRefusal(f))
	}
}

// Phase is one step of a start.
type Phase struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

// phasesOf converts phases for a result. It never returns nil.
func phasesOf(phases []machine.Phase) []Phase {
	all := []Phase{}
	for _, p := range phases {
		all = append(all, Phase{p.Name, ms(p.Duration)})
	}
	return all
}

// Encoding is the encoding of bytes in a JSON string.
type Encoding string

// The encodings.
const (
	UTF8   Encoding = "utf-8"
	Base64 Encoding = "base64"
)

// Output returns the bytes of the two streams as the command wrote them.
func (r *CommandResult) Output() (stdout, stderr []byte) {
	return r.StdoutEncoding.decode(r.Stdout), r.StderrEncoding.decode(r.Stderr)
}

// ended sets the fields that describe the end of the command.
func (r *CommandResult) ended(e program.Exit) {
	r.ExitCode, r.Signal, r.TimedOut, r.NotRun = e.Code, e.Signal, e.TimedOut, e.NotRun
	r.OutOfMemory, r.OutputHeld, r.DurationMS = e.OutOfMemory, e.OutputHeld, ms(e.Duration)
	if e.TimedOut {
		r.ExitCode = fault.ExitTimeout
	}
}

// printed sets the fields for the command's output.
func (r *CommandResult) printed(stdout, stderr *output) {
	r.Stdout, r.StdoutEncoding = stdout.text()
	r.Stderr, r.StderrEncoding = stderr.text()
	if stdout.buffer != nil {
		r.StdoutTruncated, r.StderrTruncated = stdout.buffer.Truncated, stderr.buffer.Truncated
	}
}

func (e Encoding) decode(s string) []byte {
	if e == Base64 {
		b, _ := base64.StdEncoding.DecodeString(s) // can't fail: the function encode wrote the string
		return b
	}
	return []byte(s)
}

// output stores the first MaxOutput bytes of a stream for a result, and copies the whole stream to
// the caller's writer.
type output struct {
	buffer *program.Bounded // nil if the result has no output.
	to     io.Writer        // the caller's writer, or nil if there is none.
	err    error            // the writer's error; it is more informative than the errors that follow from it.

	failed context.CancelCauseFunc // called with the error of the writer; can be nil
}

func newOutput(to io.Writer, streamOnly bool) *output {
	o := &output{to: to}
	if !streamOnly {
		o.buffer = &program.Bounded{Budget: program.NewBudget(MaxOutput), Discard: true}
	}
	return o
}

func (o *output) Write(b []byte) (int, error) {
	if o.buffer != nil {
		o.buffer.Write(b)
	}
	if o.to == nil {
		return len(b), nil
	}
	n, err := o.to.Write(b)
	if err != nil {
		o.err = err
		if o.failed != nil {
			o.failed(err)
		}
	}
	return n, err
}

// writeError returns the errors of the caller's writers, or nil if none failed.
func writeError(stdout, stderr *output) error {
	if err := errors.Join(stdout.err, stderr.err); err != nil {
		return fault.Wrap(err, "pass on the output", "")
	}
	return nil
}

// text returns the stored bytes as text for a JSON string, with the encoding.
func (o *output) text() (string, Encoding) {
	if o.buffer == nil {
		return "", UTF8
	}
	if text := o.buffer.Text(); o.buffer.Truncated && utf8.Valid(text) {
		return string(text), UTF8
	}
	return encode(o.buffer.Bytes())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
