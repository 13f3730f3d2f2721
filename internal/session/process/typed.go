package process

import (
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/session"
)

// typeIn types all bytes or none. It refuses a line that is too long for the terminal. If the
// terminal or its program can echo the text, later requests can ask for the echo.
func (p *sessionProcess) typeIn(req session.Request) error {
	p.mu.Lock()
	begun := p.begun
	p.mu.Unlock()
	if longest, _ := program.LongestLine(begun, req.Data); longest > program.LineLimit && !req.Anyway {
		limit, err := p.lineLimit()
		if err == nil {
			err = program.CheckLine(longest, limit)
		}
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	settings, _ := p.program.foreground()
	at := p.output.logs[session.Output].Len()
	if err := p.in.put(req.Data); err != nil {
		return err
	}
	_, p.begun = program.LongestLine(p.begun, req.Data)
	silent := settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0
	if !p.spec.Separate && !silent {
		p.typed = addTyped(p.typed, at, req.Data)
	}
	return nil
}

// lineLimit returns the longest line that the terminal accepts now, in bytes, or 0 if there is no
// limit.
func (p *sessionProcess) lineLimit() (int, error) {
	if w, ok := p.program.(*workspaceProgram); ok {
		return w.lineLimit()
	}
	if settings, _ := p.program.foreground(); settings != nil && settings.Lflag&unix.ICANON != 0 {
		return program.LineLimit, nil
	}
	return 0, nil
}

// echoes returns the echoes of typed text in the output after an offset.
func (p *sessionProcess) echoes(after int64) ([]session.Range, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findEchoes(after)
}

// findEchoes is echoes. p.mu must be locked.
func (p *sessionProcess) findEchoes(after int64) ([]session.Range, error) {
	if len(p.typed) == 0 {
		return nil, nil
	}
	from := max(0, max(after, p.typed[0].at)-echoContext)
	out, err := p.output.logs[session.Output].Read(from, maxEchoDelay)
	if err != nil {
		return nil, err
	}
	all := findEchoes(out.Data, out.From, p.typed)
	for len(all) > 0 && all[0].To <= after {
		all = all[1:]
	}
	return all, nil
}
