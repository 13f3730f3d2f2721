package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/fault"
)

const (
	eventPage       = 100              // maximum number of events in one read.
	eventPing       = 25 * time.Second // proxies often close connections after a minute of silence.
	maxEventStreams = 256              // of a team
)

// Event reports a change of a record of the team.
type Event struct {
	ID      int64             `json:"id"`
	Type    string            `json:"type" example:"sandbox.status"`
	Subject string            `json:"subject" doc:"The ID of the record"`
	Data    map[string]string `json:"data" doc:"Details, such as the new status"`
	At      time.Time         `json:"at"`
}

// eventStreams counts the open streams of events.
type eventStreams struct {
	open   teamCounter
	once   sync.Once
	ending chan struct{} // closed by Shutdown
}

func newEventStreams() *eventStreams {
	return &eventStreams{ending: make(chan struct{})}
}

// add counts a stream. The caller must call end.
func (e *eventStreams) add(team string) (end func(), err error) {
	end, ok := e.open.add(team, maxEventStreams)
	if !ok {
		return nil, fault.Newf(fault.Exhausted, "the team has %d open streams of events", maxEventStreams).WithHint("close some of them")
	}
	return end, nil
}

func (e *eventStreams) shutdown() { e.once.Do(func() { close(e.ending) }) }

// eventsIn is the input of the stream of events.
type eventsIn struct {
	withRequest
	Last   string `header:"Last-Event-ID" maxLength:"20" doc:"Browsers send it when they connect again. It takes precedence over the parameter after"`
	After  string `query:"after" maxLength:"20" doc:"Begin after the event with this ID; default: with the next event"`
	Follow bool   `query:"follow" default:"true" doc:"Wait for new events; false: end after the stored events"`
}

func (s *Server) bindEvents() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/events", "events", "Stream the changes of the team's records as server-sent events", store.RoleViewer, streamsEvents),
		func(ctx context.Context, in *eventsIn) (*huma.StreamResponse, error) {
			e, err := s.newEventStream(ctx, in)
			if err != nil {
				return nil, newError(err)
			}
			end, err := s.events.add(e.by.TeamID)
			if err != nil {
				return nil, newError(err)
			}
			return &huma.StreamResponse{Body: func(out huma.Context) {
				defer end()
				e.run(ctx, out)
			}}, nil
		})
}

// streamsEvents describes the answer in the OpenAPI document.
func streamsEvents(o *huma.Operation) {
	o.Metadata[isStream] = true
	o.Responses = map[string]*huma.Response{"200": {
		Description: "Each message has an Event as its data. The message ready has the ID of the event before the stream. The message gone means that the stream has missed events: list the records again.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

// eventStream is one stream of events.
type eventStream struct {
	server *Server
	http   *http.Request
	by     control.Identity
	after  int64
	resume bool // the client has named an event
	follow bool
	out    http.ResponseWriter
}

func (s *Server) newEventStream(ctx context.Context, in *eventsIn) (*eventStream, error) {
	e := &eventStream{server: s, http: in.http, by: identity(ctx), follow: in.Follow}
	text := in.Last
	if text == "" {
		text = in.After
	}
	if text == "" {
		return e, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return nil, fault.Newf(fault.Invalid, "%q is not the ID of an event", fault.Printable(text)).WithHint("send the ID of an event, or none")
	}
	e.after, e.resume = n, true
	return e, nil
}

// run sends events until the client disconnects or loses its access, or the server shuts down. It
// never reads more than a page ahead of the client.
func (e *eventStream) run(ctx context.Context, out huma.Context) {
	_, e.out = humago.Unwrap(out)
	e.out.Header().Set("Content-Type", "text/event-stream")
	e.out.Header().Set("X-Accel-Buffering", "no") // for nginx
	woken, end := e.server.control.ReadEvents(e.by.Actor)
	defer end()
	ping := time.NewTicker(eventPing)
	defer ping.Stop()
	if err := e.begin(ctx); err != nil {
		return
	}
	for {
		more, err := e.page(ctx)
		switch {
		case err != nil:
			return
		case more:
			continue
		case !e.follow:
			return
		}
		select {
		case <-woken:
		case <-ping.C:
			if e.allowed() != nil || e.write(": ping\n\n") != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-e.server.events.ending:
			return
		}
	}
}

// begin sends the HTTP status and the message ready.
func (e *eventStream) begin(ctx context.Context) error {
	if !e.resume {
		last, err := e.server.control.LastEvent(ctx, e.by.Actor)
		if err != nil {
			return err
		}
		e.after = last
	}
	return e.send("ready", e.after, map[string]int64{"after": e.after})
}

// page sends a page of events. If more is true, there may be another page.
func (e *eventStream) page(ctx context.Context) (more bool, err error) {
	all, last, missed, err := e.server.control.EventsAfter(ctx, e.by.Actor, e.after, eventPage)
	if err != nil {
		e.server.log.ErrorContext(ctx, "read events", "team", e.by.TeamID, "error", err)
		return false, err
	}
	if len(all) == 0 && !missed {
		return false, nil
	}
	if err := e.allowed(); err != nil { // checked after the events were read, so that no event is sent after a revocation
		return false, err
	}
	if missed {
		e.after = last
		return true, e.send("gone", last, map[string]Detail{"error": {Code: "gone", Message: "events were removed before you read them", Hint: "list the records again; the stream continues after this message"}})
	}
	for _, v := range all {
		e.after = v.ID
		if err := e.send("", v.ID, Event{v.ID, v.Type, v.Subject, v.Data, v.At}); err != nil {
			return false, err
		}
	}
	return len(all) == eventPage, nil
}

// allowed checks that the sender's key or membership was not revoked.
func (e *eventStream) allowed() error {
	now, err := e.server.stillAllowed(e.http, store.RoleViewer)
	if err == nil && now.TeamID != e.by.TeamID {
		err = fault.Newf(fault.Permission, "the session was switched to another team")
	}
	return err
}

// send sends a message. If kind is empty, browsers treat it as an unnamed message.
func (e *eventStream) send(kind string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if kind != "" {
		kind = "event: " + kind + "\n"
	}
	return e.write(fmt.Sprintf("%sid: %d\ndata: %s\n\n", kind, id, text))
}

func (e *eventStream) write(text string) error {
	if _, err := e.out.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(e.out).Flush()
}
