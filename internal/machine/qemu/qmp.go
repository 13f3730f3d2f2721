package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxQMPLine is the maximum size of a message from QEMU, in bytes. The largest expected message has
// a few kilobytes.
const maxQMPLine = 1 << 20

// errMonitorClosed is the cause if QEMU ends before it answers a command.
var errMonitorClosed = errors.New("QEMU closed its monitor")

// monitor is a client for QMP, QEMU's machine protocol
// (https://www.qemu.org/docs/master/interop/qmp-spec.html), on one connection. It is safe for
// concurrent use. It stops when the connection is closed.
type monitor struct {
	conn   net.Conn
	events func(name string, data json.RawMessage) // called for each event in order; must not block; can be nil

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	closed  error         // set when no more replies can arrive
	greeted chan struct{} // closed when QEMU's greeting arrives
	done    chan struct{}
}

type reply struct {
	QMP    json.RawMessage `json:"QMP"` // the greeting
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	ID    *int            `json:"id"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// newMonitor starts a client on conn and takes ownership of conn. It does not wait for the
// greeting, because QEMU accepts earlier commands.
func newMonitor(conn net.Conn, events func(string, json.RawMessage)) *monitor {
	m := &monitor{conn: conn, events: events, waiting: map[int]chan reply{}, greeted: make(chan struct{}), done: make(chan struct{})}
	go m.receive()
	return m
}

func (m *monitor) receive() {
	defer close(m.done)
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(make([]byte, 0, 16<<10), maxQMPLine)
	var broken error
	var greeted sync.Once
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			broken = fmt.Errorf("unreadable message from QEMU: %w", err)
			break
		}
		switch {
		case r.QMP != nil:
			greeted.Do(func() { close(m.greeted) })
		case r.Event != "":
			if m.events != nil {
				m.events(r.Event, r.Data)
			}
		case r.ID != nil:
			m.mu.Lock()
			answer := m.waiting[*r.ID]
			delete(m.waiting, *r.ID)
			m.mu.Unlock()
			if answer != nil {
				answer <- r
			}
		}
	}
	if broken == nil && lines.Err() == bufio.ErrTooLong {
		broken = lines.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = errMonitorClosed
	if broken != nil {
		m.closed = broken
	}
	for id, answer := range m.waiting {
		delete(m.waiting, id)
		close(answer)
	}
	m.conn.Close()
}

// command is one QMP command.
type command struct {
	name string
	args any // marshalled as the arguments, unless nil
}

// sendFile sends QEMU an open file. Later commands can refer to the file by name.
func (m *monitor) sendFile(ctx context.Context, name string, f *os.File) error {
	return m.sendWithFile(ctx, f, command{"getfd", map[string]string{"fdname": name}})
}

// sendFileToSet adds an open file to one of QEMU's descriptor sets.
func (m *monitor) sendFileToSet(ctx context.Context, set int, f *os.File) error {
	return m.sendWithFile(ctx, f, command{"add-fd", map[string]int{"fdset-id": set}})
}

// sendWithFile sends a command together with an open file.
func (m *monitor) sendWithFile(ctx context.Context, f *os.File, c command) error {
	conn, ok := m.conn.(*net.UnixConn)
	if !ok {
		return errors.New("only a unix socket carries files")
	}
	wait := m.sendBy(func(b []byte) error {
		_, _, err := conn.WriteMsgUnix(b, unix.UnixRights(int(f.Fd())), nil)
		return err
	}, c)
	_, err := wait(ctx)
	return err
}

// send sends several commands in one write, which saves round trips. QEMU runs them in order, even
// after one has failed. The function wait waits for the answers and returns the last one. It stops
// at the first error.
func (m *monitor) send(commands ...command) (wait func(context.Context) (json.RawMessage, error)) {
	return m.sendBy(func(b []byte) error {
		_, err := m.conn.Write(b)
		return err
	}, commands...)
}

func (m *monitor) sendBy(write func([]byte) error, commands ...command) (wait func(context.Context) (json.RawMessage, error)) {
	answers := make([]chan reply, len(commands))
	var batch []byte
	m.mu.Lock()
	err := m.closed
	for i, c := range commands {
		id := m.next
		m.next++
		line, merr := json.Marshal(struct {
			Execute   string `json:"execute"`
			Arguments any    `json:"arguments,omitempty"`
			ID        int    `json:"id"`
		}{c.name, c.args, id})
		err = errors.Join(err, merr)
		batch = append(append(batch, line...), '\n')
		answers[i] = make(chan reply, 1)
		if err == nil {
			m.waiting[id] = answers[i]
		}
	}
	if err == nil {
		err = write(batch)
	}
	m.mu.Unlock()
	return func(ctx context.Context) (json.RawMessage, error) {
		if err != nil {
			return nil, err
		}
		var last json.RawMessage
		for i, answer := range answers {
			select {
			case r, ok := <-answer:
				switch {
				case !ok:
					return nil, fmt.Errorf("%s: %w", commands[i].name, m.err())
				case r.Error != nil:
					return nil, fmt.Errorf("%s: %s", commands[i].name, r.Error.Desc)
				}
				last = r.Return
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: %w", commands[i].name, ctx.Err())
			}
		}
		return last, nil
	}
}

// run sends commands, waits for the answers, and returns the last one.
func (m *monitor) run(ctx context.Context, commands ...command) (json.RawMessage, error) {
	return m.send(commands...)(ctx)
}

func (m *monitor) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// close closes the connection and waits until the reader has stopped.
func (m *monitor) close() {
	m.conn.Close()
	<-m.done
}
