package process

import (
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/terminal"
)

// screen is the screen of a session. It is drawn from the output in the log, and only when a client
// requests it. Drawing all output as it arrives would slow down programs that print much.
type screen struct {
	cols, rows int
	drawn      *terminal.Screen // nil: draw from the start of the log
	at         int64            // offset in the log up to which drawn is complete
	switches   terminal.Switches
}

func (s *screen) init(cols, rows int) { s.cols, s.rows = cols, rows }

// write records switches between the main and the alternate screen. It also records the mode of the
// cursor keys.
func (s *screen) write(b []byte) { s.switches.Write(b) }

// resize discards the drawn screen. The next draw uses the new size.
func (s *screen) resize(cols, rows int) { s.cols, s.rows, s.drawn = cols, rows, nil }

// draw draws the output that was added since the last call. It leaves out output that another
// process adds during the call. So it returns even if a program prints faster than pyro draws.
func (s *screen) draw(log *program.SharedLog) (*terminal.Screen, error) {
	if s.drawn == nil || s.at < log.Start() {
		s.drawn, s.at = terminal.New(s.cols, s.rows, 0), log.Start()
		if _, alternate := s.switches.Alternate(s.at); alternate {
			s.drawn.Write([]byte("\x1b[?1049h"))
		}
	}
	for end := log.Len(); ; {
		p, err := log.Read(s.at, 16<<10)
		if err != nil {
			return nil, err
		}
		s.drawn.Write(p.Data)
		s.at = p.Next
		if s.at >= end || len(p.Data) == 0 {
			return s.drawn, nil
		}
	}
}
