package ptymcp

import (
	"context"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/session"
	"github.com/pyro-mcp/pyro/internal/terminal"
)

// screenResult is the result of pty_screen.
type screenResult struct {
	Text      string       `json:"text"` // lines without trailing spaces
	Row       int          `json:"cursor_row"`
	Col       int          `json:"cursor_col"`
	Alternate bool         `json:"alternate_screen"`
	Cols      int          `json:"cols"`
	Rows      int          `json:"rows"`
	Hint      session.Hint `json:"hint"`
}

// screen is pty_screen. It does not consume the output.
func (s *Server) screen(ctx context.Context, req target, _ func(string)) (*screenResult, error) {
	info, err := s.use(req, observes("pty_screen"))
	if err != nil {
		return nil, err
	}
	touch(info)
	look, err := currentScreen(ctx, info)
	if err != nil {
		return nil, err
	}
	return &screenResult{strings.Join(look.Screen, "\n"), look.Row, look.Col, look.Alternate, info.Size.Cols, info.Size.Rows, look.Hint}, nil
}

// currentScreen returns the current screen of a session, or the last screen if the session has
// ended.
func currentScreen(ctx context.Context, info session.Info) (*session.Look, error) {
	a, err := info.Ask(ctx, session.Request{Op: session.OpLook})
	if err != nil && a.Ended {
		return finalScreen(info)
	}
	return a.Look, err
}

// finalScreen returns the screen of an ended session.
func finalScreen(info session.Info) (*session.Look, error) {
	log, err := info.Folder.Log(session.Output)
	if err != nil {
		return nil, fault.Wrap(err, "show session", info.ID)
	}
	defer log.Close()
	drawn := terminal.New(info.Size.Cols, info.Size.Rows, 0)
	for at := log.Start(); ; {
		p, err := log.Read(at, 16<<10)
		if err != nil {
			return nil, fault.Wrap(err, "show session", info.ID)
		}
		drawn.Write(p.Data)
		if at = p.Next; !p.More || len(p.Data) == 0 {
			break
		}
	}
	look := &session.Look{Screen: drawn.Rows(), Alternate: drawn.Alternate(), Hint: session.Ended}
	look.Row, look.Col = drawn.Cursor()
	return look, nil
}
