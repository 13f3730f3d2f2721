package client

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Conn is a connection to a TCP port of a machine. The caller must close it.
type Conn struct {
	io.Reader // returns io.EOF after the program has closed the connection
	body      io.Closer
	input     *io.PipeWriter
	cancel    context.CancelFunc
}

// DialPort connects to a loopback address of the machine. The connection ends when ctx ends.
// Unavailable: no program listens on that address.
func (c *Client) DialPort(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	var conn *Conn
	err := c.do(ctx, func(ctx context.Context, s *session) (err error) {
		conn, err = dialPort(ctx, s, to)
		return err
	})
	if err != nil {
		return nil, fault.Wrap(err, "connect to", to.String())
	}
	return conn, nil
}

func dialPort(ctx context.Context, s *session, to netip.AddrPort) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, input := io.Pipe()
	stop := endWith(ctx, input)
	end := func() {
		stop()
		cancel()
		input.Close()
	}
	call := "http://agent/dial?" + url.Values{"address": {to.String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call, body)
	if err != nil {
		end()
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err == nil {
		if err = answered(resp); err != nil {
			resp.Body.Close()
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Conn{Reader: resp.Body, body: resp.Body, input: input, cancel: end}, nil
}

// Write sends b to the program.
func (c *Conn) Write(b []byte) (int, error) { return c.input.Write(b) }

// CloseWrite ends the data to the program. The program reads all written data and then EOF, and can
// still send.
func (c *Conn) CloseWrite() error { return c.input.Close() }

// Close ends the connection immediately.
func (c *Conn) Close() error {
	c.cancel()
	return c.body.Close()
}
