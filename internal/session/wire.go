package session

import (
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lines"
)

// This is the protocol on the socket of a session process. Each request and each answer is one line
// with a JSON object. Answers come in the order of the requests.

// Op is the operation of a request.
type Op string

// The operations.
const (
	OpInput  Op = "input"  // Types all of Data or nothing. Fails with Invalid if a line is too long for the terminal.
	OpSecret Op = "secret" // Types Secret and Enter, when echo is off or if Shown is set.
	OpResize Op = "resize" // Sets the size to Cols and Rows.
	OpSignal Op = "signal" // Sends Signal to the foreground process group.
	OpWait   Op = "wait"   // Waits for output after Cursor, a pause of Idle, the end, or Timeout.
	OpLook   Op = "look"   // Returns the screen.
	OpCount  Op = "count"  // Returns the input counts and modes. Does not count as use of the session.
	OpEchoes Op = "echoes" // Returns the echoes of typed text in the output after Cursor. Does not count as use of the session.
	OpEnd    Op = "end"    // Ends the session. The answer follows when the session has ended.
)

// Request is a request to a session process.
type Request struct {
	Op       Op            `json:"op"`
	Data     []byte        `json:"data,omitempty"`
	Anyway   bool          `json:"anyway,omitempty"` // type lines that are too long for the terminal, which cuts them off
	Secret   string        `json:"secret,omitempty"`
	Shown    bool          `json:"shown,omitempty"`    // type the secret even if the terminal echoes it
	NoEnter  bool          `json:"no_enter,omitempty"` // do not type Enter
	From     string        `json:"from,omitempty"`     // source of the secret, for the log
	Cols     int           `json:"cols,omitempty"`
	Rows     int           `json:"rows,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	Cursor   int64         `json:"cursor,omitempty"`    // offset in Stream
	Stream   Stream        `json:"stream,omitempty"`    // stream to wait for; empty: Output
	Idle     time.Duration `json:"idle,omitempty"`      // 0: do not wait for a pause in the output
	UntilEnd bool          `json:"until_end,omitempty"` // do not stop waiting when there is output
	Timeout  time.Duration `json:"timeout,omitempty"`
	Client   string        `json:"client_id,omitempty"` // the caller, for the log
}

// Answer is the answer to a request.
type Answer struct {
	Error *fault.Report `json:"error,omitempty"`
	Ended bool          `json:"ended,omitempty"` // the session has ended
	Look  *Look         `json:"look,omitempty"`
	Count *Count        `json:"count,omitempty"`

	Echoes []Range `json:"echoes,omitempty"` // echoes in the order of the output; they can overlap
}

// Range is a part of the output: the offset of its first byte, and the offset after its last byte.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Count contains the numbers of accepted and rejected input bytes, and the modes of the input.
type Count struct {
	Written int64 `json:"written"`
	Refused int64 `json:"refused"`
	Hidden  bool  `json:"hidden,omitempty"` // a program other than a shell reads a line without echo, which is probably a password

	ApplicationKeys bool `json:"application_keys,omitempty"` // the cursor keys are in application mode
}

// Look describes the screen of a session.
type Look struct {
	Screen    []string `json:"screen"` // lines without trailing blanks
	Row       int      `json:"row"`    // cursor position, 0-based
	Col       int      `json:"col"`
	Alternate bool     `json:"alternate_screen"`
	Title     string   `json:"title,omitempty"`
	Hint      Hint     `json:"hint"`
}

// Hint is a guess at what a session is doing.
type Hint string

// The hints.
const (
	AtPrompt Hint = "at_prompt"       // A shell waits for a command.
	Asking   Hint = "asking_password" // Echo is off.
	Reading  Hint = "reading"         // A program reads a line.
	Pager    Hint = "full_screen"     // A program such as a pager or an editor uses the whole screen.
	Busy     Hint = "running"         // None of the other hints applies.
	Ended    Hint = "ended"           // The program has ended.
)

// MaxMessage is the maximum size of a message, including the line break, in bytes.
const MaxMessage = 4 << 20

// Conn is one end of a connection to a session process.
type Conn struct {
	net.Conn
	lines *lines.Reader
}

// NewConn returns a Conn that wraps c. The caller must close the Conn, which closes c.
func NewConn(c net.Conn) *Conn { return &Conn{c, lines.NewReader(c, MaxMessage)} }

// Send sends a message.
func (c *Conn) Send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) >= MaxMessage {
		return fault.Newf(fault.Invalid, "a message of %d bytes: at most %d", len(b), MaxMessage)
	}
	_, err = c.Write(append(b, '\n'))
	return err
}

// Receive receives a message into v.
func (c *Conn) Receive(v any) error {
	line, fits, err := c.lines.Next()
	switch {
	case !fits:
		return fmt.Errorf("a message of more than %d bytes", MaxMessage)
	case err != nil:
		return err
	}
	return json.Unmarshal(line, v)
}
