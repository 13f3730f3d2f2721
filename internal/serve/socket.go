package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/rpc"
	"github.com/pyro-mcp/pyro/internal/runes"
)

// Bounds of WebSockets.
const (
	maxFrame      = 1 << 20         // maximum size of a frame from a client, in bytes.
	maxFirstFrame = 4 << 10         // maximum size of a frame before the client has sent its API key, in bytes.
	maxStrangers  = 256             // connections that have not sent their API key yet.
	firstFrame    = 5 * time.Second // maximum time until the client sends its API key.
	pingEvery     = 30 * time.Second
	sendTimeout   = time.Minute      // maximum time until a client has received a frame.
	callTimeout   = 20 * time.Second // time limit of the call that a frame causes. It is shorter than pingEvery, because pongs are not read during the call.
	closeTimeout  = 2 * time.Second  // maximum time until Shutdown cuts connections.
)

// frame is a frame from a client. Each type of frame uses some of the fields.
type frame struct {
	Type       string            `json:"type"`
	Token      string            `json:"token"`
	Cmd        string            `json:"cmd"`
	Args       []string          `json:"args"`
	Envs       map[string]string `json:"envs"`
	Cwd        string            `json:"cwd"`
	User       string            `json:"user"`
	TimeoutSec int32             `json:"timeout_sec"`
	Tag        string            `json:"tag"`
	Cols       uint32            `json:"cols"`
	Rows       uint32            `json:"rows"`
	Offset     int64             `json:"offset"`
	Data       []byte            `json:"data"` // base64
	Window     int64             `json:"window"`
	Bytes      int64             `json:"bytes"`
	Holder     bool              `json:"holder"`
	Paths      []string          `json:"paths"`
}

// event is a frame to a client. Each type of event uses some of the fields.
type event struct {
	Type       string  `json:"type"`
	Status     string  `json:"status,omitempty"`
	ActiveAt   string  `json:"last_active_at,omitempty"`
	Path       string  `json:"path,omitempty"`
	PID        *uint32 `json:"pid,omitempty"`
	Tag        string  `json:"tag,omitempty"`
	Data       string  `json:"data,omitempty"`
	Encoding   string  `json:"encoding,omitempty"`
	Offset     *int64  `json:"offset,omitempty"`
	ExitCode   *int32  `json:"exit_code,omitempty"`
	Error      string  `json:"error,omitempty"`
	Fatal      *bool   `json:"fatal,omitempty"`
	Code       string  `json:"code,omitempty"`
	Hint       string  `json:"hint,omitempty"`
	Holder     string  `json:"holder,omitempty"`
	HolderType string  `json:"holder_type,omitempty"`
	Yours      *bool   `json:"yours,omitempty"`
	SameUser   *bool   `json:"same_user,omitempty"`
	Others     *int    `json:"others,omitempty"`
}

// parseFrame parses a message as a frame.
func parseFrame(kind websocket.MessageType, message []byte) (f frame, err error) {
	if kind != websocket.MessageText {
		return f, fault.Newf(fault.Invalid, "a binary frame: frames must be text")
	}
	if err := runes.CheckText(message); err != nil {
		return f, fault.Newf(fault.Invalid, "a frame must be text: %w", err)
	}
	err = json.Unmarshal(rpc.Tolerant(message), &f)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return f, fault.Newf(fault.Invalid, "a frame is not valid: %.80s is of the wrong type: %.40s", wrong.Field, wrong.Value)
	} else if err != nil {
		return f, fault.Newf(fault.Invalid, "a frame is not valid: %w", err)
	}
	return f, nil
}

// socket is the WebSocket of a client.
type socket struct {
	conn   *websocket.Conn
	by     control.Identity
	ctx    context.Context // ends with the connection
	end    context.CancelFunc
	closed sync.Once
	pings  atomic.Bool // send the frame ping
	order  sync.Mutex  // held while a frame is sent
	last   bool        // a fatal error was sent, which is the last frame
}

var (
	errGone    = errors.New("the client has disconnected")
	errStopped = errors.New("the client ended it")
)

// next waits for the next frame of the client and returns it.
func (c *socket) next() (frame, error) {
	kind, message, err := c.conn.Read(c.ctx)
	if err != nil {
		return frame{}, errGone
	}
	return parseFrame(kind, message)
}

// send sends a frame. It blocks until the connection has accepted the frame. So a slow client slows
// the program down instead of filling a buffer. After a fatal error, send returns errGone.
func (c *socket) send(e event) error {
	message, err := json.Marshal(e)
	if err != nil {
		return err
	}
	c.order.Lock()
	defer c.order.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, sendTimeout)
	defer cancel()
	if c.last || c.conn.Write(ctx, websocket.MessageText, message) != nil {
		return errGone
	}
	c.last = e.Fatal != nil && *e.Fatal
	return nil
}

// report sends an error. If it is fatal, the caller closes the connection.
func (c *socket) report(err error, fatal bool) {
	e := newError(err)
	c.send(event{Type: "error", Data: e.Detail.Message, Fatal: &fatal, Code: e.Detail.Code, Hint: e.Detail.Hint})
}

// finish closes the connection and sends err as the reason. Only the first call has an effect.
func (c *socket) finish(err error) {
	c.closed.Do(func() {
		switch {
		case err == nil, errors.Is(err, errStopped):
			c.conn.Close(websocket.StatusNormalClosure, "")
		case errors.Is(err, errGone), c.ctx.Err() != nil:
			c.end()
		default:
			c.report(err, true)
			c.conn.Close(closeStatus(newError(err).status), "")
		}
	})
}

// closeStatus returns the WebSocket close status for an HTTP status. After 1008, clients should not
// connect again.
func closeStatus(status int) websocket.StatusCode {
	switch {
	case status == http.StatusServiceUnavailable:
		return websocket.StatusTryAgainLater
	case status < 500 || status == http.StatusNotImplemented:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusInternalError
}

// run calls output, which sends frames, and calls input with each frame of the client. When output
// returns or input fails, run calls stop, which must end output. run returns when the connection is
// closed.
func (c *socket) run(stop func(), output func() error, input func(frame) error) {
	var work sync.WaitGroup
	work.Go(func() { c.finish(output()) })
	for {
		f, err := c.next()
		if err == nil {
			err = input(f)
		}
		if err != nil {
			c.finish(err)
			break
		}
	}
	stop()
	work.Wait()
}
