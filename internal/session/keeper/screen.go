package keeper

import (
	"github.com/pyro-mcp/pyro/internal/terminal"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// screen is what a person would see of a session. It is drawn when somebody looks, from what is kept of the output: to draw all that comes would slow a program
// that prints much.
type screen struct {
	cols, rows int
	drawn      *terminal.Screen // nil: from the beginning of what is kept
	at         int64            // of the output, up to which it is drawn
	switches   terminal.Switches
}

func (s *screen) init(cols, rows int) { s.cols, s.rows = cols, rows }

// write notes what came.
func (s *screen) write(b []byte) { s.switches.Write(b) }

// resize begins anew: what programs print after it is for the new size.
func (s *screen) resize(cols, rows int) { s.cols, s.rows, s.drawn = cols, rows, nil }

// draw draws what has come since.
func (s *screen) draw(log *transcript.Shared) (*terminal.Screen, error) {
	if s.drawn == nil || s.at < log.Start() {
		s.drawn, s.at = terminal.New(s.cols, s.rows, 0), log.Start()
		if _, alternate := s.switches.Alternate(s.at); alternate {
			s.drawn.Write([]byte("\x1b[?1049h"))
		}
	}
	for {
		p, err := log.Read(s.at, 16<<10)
		if err != nil {
			return nil, err
		}
		s.drawn.Write(p.Data)
		s.at = p.Next
		if !p.More || len(p.Data) == 0 {
			return s.drawn, nil
		}
	}
}
