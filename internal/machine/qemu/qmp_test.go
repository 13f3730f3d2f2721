package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// fakeQEMU returns a connection to a fake QEMU, which answers commands.
func fakeQEMU(t *testing.T, answer func(name string, id int) string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		go io.WriteString(far, `{"QMP": {"version": {}, "capabilities": []}}`+"\r\n")
		lines := bufio.NewScanner(far)
		for lines.Scan() {
			var c struct {
				Execute string
				ID      int
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Errorf("not JSON: %q", lines.Text())
				return
			}
			text := answer(c.Execute, c.ID)
			if text == "" {
				return
			}
			io.WriteString(far, text+"\r\n")
		}
	}()
	return near
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

func TestMonitorCommandsAndEvents(t *testing.T) {
	var events []string
	m := newMonitor(fakeQEMU(t, func(name string, id int) string {
		if name == "stop" {
			return `{"event": "STOP", "data": {}}` + "\r\n" + `{"return": {}, "id": ` + itoa(id) + `}`
		}
		return `{"return": {}, "id": ` + itoa(id) + `}`
	}), func(name string, _ json.RawMessage) { events = append(events, name) })
	if _, err := m.run(context.Background(), command{name: "qmp_capabilities"}, command{"stop", map[string]int{"x": 1}}); err != nil {
		t.Fatal(err)
	}
	m.close()
	if len(events) != 1 || events[0] != "STOP" {
		t.Errorf("events: %q", events)
	}
}

func TestMonitorErrors(t *testing.T) {
	refuse := newMonitor(fakeQEMU(t, func(_ string, id int) string {
		return `{"error": {"class": "GenericError", "desc": "no such thing"}, "id": ` + itoa(id) + `}`
	}), nil)
	defer refuse.close()
	if _, err := refuse.run(context.Background(), command{name: "cont"}); err == nil || err.Error() != "cont: no such thing" {
		t.Errorf("got %v", err)
	}

	gone := newMonitor(fakeQEMU(t, func(string, int) string { return "" }), nil)
	defer gone.close()
	if _, err := gone.run(context.Background(), command{name: "cont"}); !errors.Is(err, errMonitorClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := gone.run(context.Background(), command{name: "cont"}); !errors.Is(err, errMonitorClosed) {
		t.Errorf("after the end: got %v", err)
	}

	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	silent := newMonitor(near, nil)
	defer silent.close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := silent.run(ctx, command{name: "cont"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestMonitorBoundsInput(t *testing.T) {
	near, far := net.Pipe()
	m := newMonitor(near, nil)
	defer m.close()
	go func() {
		defer far.Close()
		io.Copy(far, io.LimitReader(endless{}, 4*maxQMPLine))
	}()
	go io.Copy(io.Discard, far)
	if _, err := m.run(context.Background(), command{name: "cont"}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzMonitor(f *testing.F) {
	f.Add([]byte(`{"return": {}, "id": 0}` + "\n" + `{"event": "STOP"}`))
	f.Add([]byte(`{"id": -1, "error": {}}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		near, far := net.Pipe()
		m := newMonitor(near, func(string, json.RawMessage) {})
		go func() {
			far.Write(input)
			far.Close()
		}()
		go io.Copy(io.Discard, far)
		m.run(context.Background(), command{name: "cont"})
		m.close()
	})
}
