package process

import (
	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/session"
)

// typeIn types all bytes or none. If the terminal or its program can echo them, later requests can
// ask for the echo.
func (p *sessionProcess) typeIn(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	settings, _ := p.program.foreground()
	at := p.output.logs[session.Output].Len()
	if err := p.in.put(data); err != nil {
		return err
	}
	silent := settings != nil && settings.Lflag&unix.ICANON != 0 && settings.Lflag&unix.ECHO == 0
	if !p.spec.Separate && !silent {
		p.typed = addTyped(p.typed, at, data)
	}
	return nil
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
