package pyro

import (
	"encoding/base64"
	"time"
	"unicode/utf8"
)

// RunStart tells what a command is about to start in.
type RunStart struct {
	ExecutionMode    ExecutionMode `json:"execution_mode"`
	Isolation        Isolation     `json:"isolation"`
	HostCompatReason string        `json:"host_compat_reason,omitempty"` // why no machine could be started, where host_compat was allowed and taken
	EmulatedReason   string        `json:"emulated_reason,omitempty"`    // why it could be no more than an emulated processor, where auto came down to one
	UnlimitedReason  string        `json:"unlimited_reason,omitempty"`   // why the machine can take more processors and memory than it was given, where it can
}

// RunResult is what became of a command.
type RunResult struct {
	Environment string `json:"environment"`
	RunStart

	ExitCode  int    `json:"exit_code"`            // of the command; 124 timed out, 126 and 127 as shells use them, 128+n ended by signal n
	Signal    int    `json:"signal,omitempty"`     // that ended it
	TimedOut  bool   `json:"timed_out"`            // a time limit was over and ended it
	TimeLimit string `json:"time_limit,omitempty"` // which: timeout_seconds or ttl_seconds
	NotRun    string `json:"not_run,omitempty"`    // why the program never ran: it was not found, for one

	OutOfMemory bool `json:"out_of_memory,omitempty"` // the machine ran out of memory: something of it was killed, or under gvisor all of it
	OutputHeld  bool `json:"output_held,omitempty"`   // a process in the background still held the output open when the command had ended

	// The output, where the request named no writers for it. What is not UTF-8 is in base64, and the encoding says so: see Output.
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutEncoding  Encoding `json:"stdout_encoding"`
	StderrEncoding  Encoding `json:"stderr_encoding"`
	StdoutTruncated bool     `json:"stdout_truncated,omitempty"` // there was more than MaxOutput
	StderrTruncated bool     `json:"stderr_truncated,omitempty"`

	DurationMS float64 `json:"duration_ms"` // of the command itself
	StartMS    float64 `json:"start_ms"`    // from the call to the command's start
	TotalMS    float64 `json:"total_ms"`    // from the call to its return, the machine gone
	Timings    []Phase `json:"timings"`     // the steps of the start, in their order
}

// Phase is one step of a start.
type Phase struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

// Encoding says how bytes are written in a JSON string.
type Encoding string

// The encodings.
const (
	UTF8   Encoding = "utf-8"
	Base64 Encoding = "base64"
)

// Output gives the bytes of the two streams as the command wrote them.
func (r *RunResult) Output() (stdout, stderr []byte) {
	return r.StdoutEncoding.decode(r.Stdout), r.StderrEncoding.decode(r.Stderr)
}

func (e Encoding) decode(s string) []byte {
	if e == Base64 {
		b, _ := base64.StdEncoding.DecodeString(s) // what was encoded here decodes
		return b
	}
	return []byte(s)
}

// capture holds the first MaxOutput bytes of a stream and counts on.
type capture struct {
	held      []byte
	truncated bool
}

func (c *capture) Write(b []byte) (int, error) {
	room := min(len(b), MaxOutput-len(c.held))
	c.held = append(c.held, b[:room]...)
	c.truncated = c.truncated || room < len(b)
	return len(b), nil
}

// text gives what is held as a JSON string can carry it.
func (c *capture) text() (string, Encoding) {
	held := c.held
	if c.truncated { // the cut may have gone through a character
		for cut := 0; cut < utf8.UTFMax && !utf8.Valid(held); cut++ {
			held = held[:len(held)-1]
		}
	}
	if utf8.Valid(held) {
		return string(held), UTF8
	}
	return base64.StdEncoding.EncodeToString(c.held), Base64
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
