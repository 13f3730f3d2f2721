package ptymcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestReadsKeepCharactersWhole checks that many small reads return all output and split no
// character.
func TestReadsKeepCharactersWhole(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `printf '日本語é%.0s' $(seq 200); printf '\xe6'; sleep 0.2; printf '\x97\xa5.'; sleep 1000`)
	want := strings.Repeat("日本語é", 200) + "日."
	var got strings.Builder
	for !strings.HasSuffix(got.String(), ".") {
		text := w.text(t, "pty_read", args{"session_id": id, "max_chars": 7, "timeout_ms": 60000})
		if text == "" || utf8.RuneCountInString(text) > 7 || strings.ContainsRune(text, utf8.RuneError) {
			t.Fatalf("%q", text)
		}
		got.WriteString(text)
	}
	if got.String() != want {
		t.Errorf("%q", got.String())
	}
}

// TestTruncation checks that readers can see how much output they missed.
func TestTruncation(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `seq 1000; echo end; sleep 1000`, args{"max_output_bytes": "100"})
	for w.object(t, "pty_status", args{"session_id": id})["buf_total_offset"] != float64(len("end\r\n")+4893) {
		time.Sleep(10 * time.Millisecond)
	}
	st := w.object(t, "pty_status", args{"session_id": id})
	if st["truncated"] != true || st["buffer_bytes"] != 100.0 || st["buf_start_offset"] != 4798.0 || st["max_output_bytes"] != 100.0 {
		t.Errorf("%v", st)
	}
	r := w.object(t, "pty_read_at", args{"session_id": id})
	if r["truncated"] != true || r["text"] != "" || r["next_offset"] != 4798.0 {
		t.Errorf("%v", r)
	}
	r = w.object(t, "pty_read_at", args{"session_id": id, "offset": r["next_offset"]})
	if r["truncated"] != false || !strings.HasSuffix(r["text"].(string), "1000\r\nend\r\n") || r["next_offset"] != 4898.0 {
		t.Errorf("%v", r)
	}
	if r := w.object(t, "pty_read_at", args{"session_id": id, "offset": 1 << 40}); r["truncated"] != false || r["text"] != "" || r["next_offset"] != 4898.0 {
		t.Errorf("%v", r)
	}
	if text := w.text(t, "pty_read", args{"session_id": id}); !strings.HasPrefix(text, "[pty-mcp] output truncated (limit 100 bytes)\n") || !strings.HasSuffix(text, "end\r\n") {
		t.Errorf("%q", text)
	}
	id = w.spawn(t, `seq 1000; echo end; sleep 1000`)
	r = w.object(t, "pty_read_until", args{"session_id": id, "pattern": "end", "max_chars": 10})
	if r["text"] != "[pty-mcp] output truncated (limit 10 bytes)\n\n1000\r\nend" || r["chunk_id"] != 4886.0 {
		t.Errorf("%v", r)
	}
}

// TestFinalOutput reads the last output of an ended session before the session is removed.
func TestFinalOutput(t *testing.T) {
	w := newWorld(t, env{"GC_INTERVAL_SEC": "1"})
	id := w.spawn(t, "echo last words; exit 3")
	w.object(t, "pty_wait", args{"session_id": id})
	time.Sleep(1100 * time.Millisecond)
	if text := w.text(t, "pty_read", args{"session_id": id}); text != "last words\r\n" {
		t.Errorf("%q", text)
	}
	r := w.object(t, "pty_read_until", args{"session_id": id, "pattern": "more"})
	if r["matched"] != false { // it returns without waiting
		t.Errorf("%v", r)
	}
	if s := w.object(t, "pty_screen", args{"session_id": id}); s["text"] != "last words" || s["hint"] != "ended" {
		t.Errorf("%v", s)
	}
	soon := w.restarted(t, env{"GC_INTERVAL_SEC": "1", "IDLE_GRACE_SEC": "1"})
	testenv.Eventually(t, "the session is deleted", func() bool {
		_, err := soon.try(t, "pty_status", args{"session_id": id})
		return fault.KindOf(err) == fault.NotFound
	})
}

// TestForget checks that running sessions and the most recently ended sessions are kept.
func TestForget(t *testing.T) {
	w := newWorld(t, nil)
	running := w.spawn(t, "sleep 1000")
	var ended []string
	for range 4 {
		id := w.spawn(t, "true")
		w.object(t, "pty_wait", args{"session_id": id})
		ended = append(ended, id)
	}
	if err := w.forget(2); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(ended[2:], running) {
		w.object(t, "pty_status", args{"session_id": id})
	}
	for _, id := range ended[:2] {
		w.refused(t, "pty_status", args{"session_id": id}, fault.NotFound, "unknown session_id")
	}
}

// TestCancelledReads checks that cancelled reads do not consume output.
func TestCancelledReads(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, "read -r; echo some; sleep 1000")
	for tool, a := range map[string]args{
		"pty_read": {"timeout_ms": 60000}, "pty_read_until": {"pattern": "x"}, "pty_read_until_any": {"patterns": []string{"x"}}, "pty_read_quiescent": {"timeout_ms": 60000},
		"pty_wait": {"timeout_ms": 60000},
	} {
		a["session_id"], a["owner"] = id, "me"
		text, _ := json.Marshal(a)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		if _, err := w.mcp.Call(ctx, tool, text, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > testenv.Patience {
			t.Errorf("%s: %v after %s", tool, err, time.Since(began))
		}
		cancel()
	}
	w.text(t, "pty_write", args{"session_id": id, "data": "\n"})
	if text := w.until(t, id, "some"); text != "\r\nsome" {
		t.Errorf("%q", text)
	}
}

// TestManyReaders checks that each byte is returned to exactly one reader.
func TestManyReaders(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, "seq 3000; sleep 1000")
	var mu sync.Mutex
	var wg sync.WaitGroup
	total, want := 0, 0
	for i := 1; i <= 3000; i++ {
		want += len(fmt.Sprint(i)) + 2
	}
	began := time.Now()
	for i := range 4 {
		wg.Go(func() {
			for {
				text := ""
				if i%2 == 0 {
					text = w.text(t, "pty_read", args{"session_id": id, "max_chars": 100, "timeout_ms": 500})
				} else {
					text = w.object(t, "pty_read_until", args{"session_id": id, "pattern": `\n`, "regex": true, "timeout_ms": 500})["text"].(string)
				}
				mu.Lock()
				total += len(text)
				complete := total >= want
				mu.Unlock()
				if text == "" && (complete || time.Since(began) > testenv.Patience) {
					return
				}
			}
		})
	}
	wg.Wait()
	if total != want {
		t.Errorf("%d bytes of %d", total, want)
	}
}

// TestSearchLargeBuffer searches a pattern in a megabyte of unread output.
func TestSearchLargeBuffer(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `yes 'compiling some/path.go:123 with $HOME and 3 > 2' | head -c 1000000; printf 'user@host:~$ '; sleep 1000`)
	testenv.Eventually(t, "the output is complete", func() bool {
		return w.object(t, "pty_status", args{"session_id": id})["buf_total_offset"].(float64) >= 1e6+13
	})
	began := time.Now()
	r := w.object(t, "pty_read_until", args{"session_id": id, "pattern": `\w+@\w+:\S+[$#] $`, "regex": true, "max_chars": 13})
	t.Log(time.Since(began))
	if text := r["text"].(string); r["matched"] != true || !strings.HasSuffix(text, "user@host:~$ ") {
		t.Errorf("%v", r)
	}
}

func TestScreen(t *testing.T) {
	w := newWorld(t, nil)
	id := w.spawn(t, `printf 'one\ntwo'; read -rs; printf '\e[?1049hfull\e[3;5H'; read -rs`, args{"cols": 20, "rows": 5})
	w.until(t, id, "two")
	s := w.object(t, "pty_screen", args{"session_id": id})
	if s["text"] != "one\ntwo" || s["cursor_row"] != 1.0 || s["cursor_col"] != 3.0 || s["alternate_screen"] != false || s["cols"] != 20.0 || s["rows"] != 5.0 {
		t.Errorf("%v", s)
	}
	w.text(t, "pty_write", args{"session_id": id, "keys": []string{"enter"}})
	w.until(t, id, "full")
	s = w.object(t, "pty_screen", args{"session_id": id})
	if !strings.Contains(s["text"].(string), "full") || s["cursor_row"] != 2.0 || s["cursor_col"] != 4.0 || s["alternate_screen"] != true {
		t.Errorf("%v", s)
	}
}
