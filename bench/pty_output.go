package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	outputBytes = 200_000_000 // size of the file that is printed
	bufferBytes = 1_000_000   // approximate size of the file that is buffered

	outputLine = "What a terminal shows is mostly lines of text, as long as this.\n" // 64 bytes
)

// printed measures how fast a session processes the output of cat. The session stores only 1 MiB of
// the output. The measurement runs once with a client that reads as fast as possible, and once
// without a client that reads.
func (t *terminals) printed() error {
	file := filepath.Join(t.dir, "large")
	if err := writeLines(file, outputBytes, ""); err != nil {
		return err
	}
	defer os.Remove(file)
	command := "stty -echo; echo ready; read -r x; cat " + file
	stays, read, unread := command+"; printf over; read -r x", &outputOf{terminals: t}, &outputOf{terminals: t}
	for _, o := range []*outputOf{read, unread} {
		s, err := t.server()
		if err != nil {
			return err
		}
		defer s.Close()
		o.server = s
	}
	r, err := t.alternate(min(t.n, 5), func() (float64, error) {
		direct, err := t.bare(stays)
		if err != nil {
			return 0, err
		}
		defer direct.end()
		if err := direct.await("ready\r\n"); err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := io.WriteString(direct, "\n"); err != nil {
			return 0, err
		}
		return throughput(began, direct.await("over"))
	}, func() (float64, error) { return read.measure(stays, read.readAll) }, func() (float64, error) { return unread.measure(command, unread.awaitEnd) })
	if err != nil {
		return err
	}
	for _, o := range []*outputOf{read, unread} {
		if err := o.peak("VmHWM"); err != nil {
			return err
		}
	}
	t.figures = append(t.figures,
		figure("pty: output of cat of 200 MB, a client reads what it can; floor: a bare PTY", "MB/s", r[1]).share(r[0], 0.6),
		figure("pty: output of cat of 200 MB, no reader; floor: a bare PTY", "MB/s", r[2]).share(r[0], 0.6),
		figure("pty: how much of it that client was given", "%", read.shares),
		figure("pty: peak memory of the server meanwhile, which a client reads from", "MiB", read.memory).atMost(40),
		figure("pty: peak memory of the server meanwhile, no reader", "MiB", unread.memory).atMost(40),
		figure("pty: peak memory of the supervisor, at the end of its 200 MB", "MiB", read.sessionProcesses))
	return nil
}

// writeLines creates a file of about the given size. The file ends with the given text.
func writeLines(file string, bytes int, last string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	block := strings.Repeat(outputLine, 1024)
	for left := bytes - len(last); left > 0 && err == nil; left -= len(block) {
		_, err = f.WriteString(block[:min(left/len(outputLine)*len(outputLine), len(block))])
	}
	if err == nil {
		_, err = f.WriteString(last)
	}
	return errors.Join(err, f.Close())
}

// throughput returns the throughput of printing the whole output, in MB/s.
func throughput(began time.Time, err error) (float64, error) {
	return outputBytes / time.Since(began).Seconds() / 1e6, err
}

// outputOf measures sessions of one server. Each session prints the whole output.
type outputOf struct {
	*terminals
	*server
	shares, memory, sessionProcesses []float64
}

// measure measures one session, from the start of printing until the callback has returned.
func (o *outputOf) measure(command string, all func(id string) error) (float64, error) {
	id, err := o.spawn(command)
	if err == nil {
		_, err = o.until(id, "ready\r\n")
	}
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := o.write(id, "\n"); err != nil {
		return 0, err
	}
	rate, err := throughput(began, all(id))
	if err != nil {
		return 0, err
	}
	for _, pid := range o.server.sessionProcesses() {
		mib, err := kilobytes(pid, "status", "VmHWM")
		if err != nil {
			return 0, err
		}
		o.sessionProcesses = append(o.sessionProcesses, mib)
	}
	return rate, o.server.close(id)
}

// readAll reads as fast as possible until the output ends.
func (o *outputOf) readAll(id string) error {
	got := 0
	for {
		text, _, err := o.call("pty_read", arguments{"session_id": id, "owner": owner, "max_chars": 170_000, "timeout_ms": 60_000})
		if err != nil {
			return err
		}
		if text == "" {
			return fmt.Errorf("nothing came in a minute, after %d bytes", got)
		}
		got += len(text)
		if strings.HasSuffix(text, "over") {
			o.shares = append(o.shares, 100*float64(got)/(outputBytes/float64(len(outputLine))*float64(len(outputLine)+1))) // lines end with "\r\n"
			return nil
		}
	}
}

// awaitEnd waits until the session has ended.
func (o *outputOf) awaitEnd(id string) error {
	_, fields, err := o.call("pty_wait", arguments{"session_id": id, "owner": owner, "timeout_ms": 60_000})
	if err == nil && fields["running"] != false {
		err = errors.New("it has not printed all in a minute")
	}
	return err
}

// peak records a memory value of the server.
func (o *outputOf) peak(field string) error {
	mib, err := kilobytes(o.pid, "status", field)
	o.memory = append(o.memory, mib)
	return err
}

// found measures how long it takes to find a match at the end of buffered output.
func (t *terminals) found() error {
	const last = "this is the end of 1 MB\n"
	file := filepath.Join(t.dir, "small")
	if err := writeLines(file, bufferBytes, last); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	buffered := float64(info.Size() + (info.Size()-int64(len(last)))/int64(len(outputLine)) + 1) // lines end with "\r\n"
	s, err := t.server()
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := s.spawn("stty -echo; echo ready; while read -r x; do cat " + file + "; done")
	if err == nil {
		_, err = s.until(id, "ready\r\n")
	}
	if err != nil {
		return err
	}
	search := func(a arguments) func() (float64, error) {
		a["session_id"], a["owner"] = id, owner
		return func() (float64, error) {
			if err := s.write(id, "\n"); err != nil {
				return 0, err
			}
			for {
				_, fields, err := s.call("pty_status", arguments{"session_id": id, "owner": owner})
				if err != nil {
					return 0, err
				}
				if fields["buffer_bytes"] == buffered {
					break
				}
			}
			began := time.Now()
			_, err := s.matched("pty_read_until", a)
			return float64(time.Since(began).Microseconds()) / 1000, err
		}
	}
	r, err := t.alternate(max(t.n, 10), search(arguments{"pattern": "end of 1 MB\r\n"}), search(arguments{"pattern": `th[a-z]+ is the end of \d+ MB\r\n`, "regex": true}))
	if err != nil {
		return err
	}
	t.figures = append(t.figures, figure("pty: pty_read_until of a text at the end of 1 MB that is buffered", "ms", r[0]).atMost(10),
		figure("pty: pty_read_until of a regular expression at the end of 1 MB that is buffered", "ms", r[1]).atMost(10))
	return s.close(id)
}
