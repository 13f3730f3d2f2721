package session

import (
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/lines"
)

// What a keeper is asked on its socket, and answers: one JSON object a line each, in turn.

// Op is what is asked.
type Op string

// The operations.
const (
	OpInput  Op = "input"  // type Data, all of it or nothing
	OpSecret Op = "secret" // type Secret and Enter, when the terminal does not show what is typed, or Shown
	OpResize Op = "resize" // to Cols and Rows
	OpSignal Op = "signal" // send Signal to what is in the foreground
	OpWait   Op = "wait"   // until there is something after Cursor, or it was quiet for Idle, or it has ended, or Timeout is over
	OpLook   Op = "look"   // at the terminal
	OpCount  Op = "count"  // what was typed, and whether it is shown; it is no use of the session
	OpEnd    Op = "end"    // the session, and be answered when it has
)

// Request is a question.
type Request struct {
	Op       Op            `json:"op"`
	Data     []byte        `json:"data,omitempty"`
	Secret   string        `json:"secret,omitempty"`
	Shown    bool          `json:"shown,omitempty"`    // the secret is typed whether the terminal shows it or not
	NoEnter  bool          `json:"no_enter,omitempty"` // the secret alone
	From     string        `json:"from,omitempty"`     // where the secret comes from, for the session's log
	Cols     int           `json:"cols,omitempty"`
	Rows     int           `json:"rows,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	Cursor   int64         `json:"cursor,omitempty"`    // of the output, or of Stream
	Stream   Stream        `json:"stream,omitempty"`    // that is waited for, "": the output
	Idle     time.Duration `json:"idle,omitempty"`      // 0: whether it is quiet does not count
	UntilEnd bool          `json:"until_end,omitempty"` // output does not count
	Timeout  time.Duration `json:"timeout,omitempty"`
	Client   string        `json:"client_id,omitempty"` // who asks, for the session's log
}

// Answer is what comes of it.
type Answer struct {
	Error *fault.Report `json:"error,omitempty"`
	Ended bool          `json:"ended,omitempty"` // it has
	Look  *Look         `json:"look,omitempty"`
	Count *Count        `json:"count,omitempty"`
}

// Count is how many bytes were typed, and not taken since they came too fast.
type Count struct {
	Written int64 `json:"written"`
	Refused int64 `json:"refused"`
	Hidden  bool  `json:"hidden,omitempty"` // what waits for a line now is no shell, and the line is not shown: a password
}

// Look is what a person would see of a session, and what can be told of it.
type Look struct {
	Screen    []string `json:"screen"` // the rows that are shown, without blanks at their ends
	Row       int      `json:"row"`    // of the cursor, from 0
	Col       int      `json:"col"`
	Alternate bool     `json:"alternate_screen"`
	Title     string   `json:"title,omitempty"`
	Hint      Hint     `json:"hint"`
}

// Hint is what a session seems to be doing.
type Hint string

// The hints.
const (
	AtPrompt Hint = "at_prompt"       // a shell waits for a command
	Asking   Hint = "asking_password" // what is typed is not shown
	Reading  Hint = "reading"         // a program waits for a line
	Pager    Hint = "full_screen"     // a program has the whole screen: a pager, an editor
	Busy     Hint = "running"         //
	Ended    Hint = "ended"           //
)

// MaxMessage bounds a question or an answer, in bytes.
const MaxMessage = 4 << 20

// Conn is a connection to a keeper, or from one.
type Conn struct {
	net.Conn
	lines *lines.Reader
}

// NewConn takes a connection over.
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

// Receive receives one.
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
