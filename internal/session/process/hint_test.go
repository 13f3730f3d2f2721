package process

import (
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/testenv"
)

// TestHints checks the hints for programs that wait in different ways.
func TestHints(t *testing.T) {
	m := manager(t)
	for _, c := range []struct {
		command string
		says    string // printed before the program waits
		want    session.Hint
		hidden  bool
	}{
		{`PS1='$ ' exec bash --norc`, "$ ", session.AtPrompt, false},
		{`PS1='$ ' exec bash --norc --noediting`, "$ ", session.AtPrompt, false},
		{`PS1='$ ' exec bash --norc --noediting -c 'stty -echo; echo go; exec bash --norc --noediting'`, "go", session.Asking, false},
		{`echo go; exec cat`, "go", session.Reading, false},
		{`echo go; sleep 1000 | exec cat`, "go", session.Busy, false},
		{`echo go; exec sleep 1000`, "go", session.Busy, false},
		{`stty -echo; echo go; exec head -n 1`, "go", session.Asking, true},
		{`stty -echo; echo go; exec sleep 1000`, "go", session.Asking, false}, // the next program will echo
		{`stty -echo; echo go; read -r`, "go", session.Asking, false},
		{`printf '\e[?1049hgo'; exec cat`, "go", session.Pager, false},
	} {
		info := spawn(t, m, spec(c.command))
		until(t, info, c.says)
		var hint session.Hint
		var hidden bool
		for deadline := time.Now().Add(testenv.Patience); ; time.Sleep(5 * time.Millisecond) {
			hint, hidden = ask(t, info, session.Request{Op: session.OpLook}).Look.Hint, ask(t, info, session.Request{Op: session.OpCount}).Count.Hidden
			if hint == c.want && hidden == c.hidden {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s: %s, hidden: %v", c.command, hint, hidden)
				break
			}
		}
		if err := m.Close(t.Context(), info.ID); err != nil {
			t.Error(err)
		}
	}
}
