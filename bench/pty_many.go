package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const manySessions = 100

// crowded measures many concurrent sessions. Each session must return exactly its own output.
func (t *terminals) crowded() error {
	s, err := t.server(fmt.Sprint("PTY_MCP_MAX_SESSIONS=", manySessions))
	if err != nil {
		return err
	}
	defer s.Close()
	ids := make([]string, manySessions)
	began := time.Now()
	err = atOnce(func(i int) (err error) {
		ids[i], err = s.spawn(fmt.Sprintf("stty -echo; for k in $(seq 1000); do echo session %d line $k; done; while read -r x; do echo session %d: $x; done", i, i))
		return err
	})
	spawned := milliseconds(time.Since(began))
	if err != nil {
		return err
	}
	err = atOnce(func(i int) error {
		var want strings.Builder
		for k := range 1000 {
			fmt.Fprintf(&want, "session %d line %d\r\n", i, k+1)
		}
		got, err := s.matched("pty_read_until", arguments{"session_id": ids[i], "owner": owner, "pattern": "line 1000\r\n", "max_chars": 100_000, "timeout_ms": 60_000})
		if err == nil && got != want.String() {
			err = fmt.Errorf("session %d printed %.200q", i, got)
		}
		if err != nil {
			return err
		}
		answer := fmt.Sprintf("session %d: typed into %d\r\n", i, i)
		got, err = s.matched("pty_prompt", arguments{
			"session_id": ids[i], "owner": owner, "data": fmt.Sprintf("typed into %d\n", i), "patterns": []string{"\r\n"}, "timeout_ms": 60_000,
		})
		if err == nil && got != answer {
			err = fmt.Errorf("session %d answered %.200q", i, got)
		}
		return err
	})
	if err != nil {
		return err
	}
	var pss, private []float64
	for _, pid := range s.sessionProcesses() {
		shared, err := kilobytes(pid, "smaps_rollup", "Pss")
		if err != nil {
			return err
		}
		dirty, err := kilobytes(pid, "smaps_rollup", "Private_Dirty")
		if err != nil {
			return err
		}
		pss, private = append(pss, shared), append(private, dirty)
	}
	if len(pss) != manySessions {
		return fmt.Errorf("%d supervisors run instead of %d", len(pss), manySessions)
	}
	peak, err := kilobytes(s.pid, "status", "VmHWM")
	if err != nil {
		return err
	}
	f := figure(fmt.Sprintf("pty: supervisor of one of %d sessions, PSS", manySessions), "MiB", pss)
	t.figures = append(t.figures, f.judge(slices.Max(pss), "MiB, the largest", 6, true),
		figure("pty: of that its own, Private_Dirty", "MiB", private),
		figure(fmt.Sprintf("pty: peak memory of the server of %d sessions", manySessions), "MiB", []float64{peak}).atMost(40),
		figure(fmt.Sprintf("pty: spawn of %d sessions at once, all of them", manySessions), "ms", []float64{spawned}))
	return atOnce(func(i int) error { return s.close(ids[i]) })
}

// atOnce calls a function concurrently, once per session.
func atOnce(f func(i int) error) (err error) {
	ended := make(chan error, manySessions)
	for i := range manySessions {
		go func() { ended <- f(i) }()
	}
	for range manySessions {
		err = errors.Join(err, <-ended)
	}
	return err
}
