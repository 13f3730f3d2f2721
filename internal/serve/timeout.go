package serve

import (
	"io"
	"net/http"
	"time"
)

// quiet is the longest pause of a client that sends a request or reads an answer.
const quiet = time.Minute

// timeoutBody reads the body of a request. It fails if no data arrives for some time.
type timeoutBody struct {
	io.ReadCloser
	connection *http.ResponseController
	quiet      time.Duration
	ended      bool // the body has no more data
}

func (i *timeoutBody) Read(b []byte) (int, error) {
	i.connection.SetReadDeadline(time.Now().Add(i.quiet))
	n, err := i.ReadCloser.Read(b)
	i.ended = err == io.EOF
	i.connection.SetReadDeadline(time.Time{}) // the next request of the connection has none
	return n, err
}

// Close closes the body. net/http reads a short rest, so that it can use the connection again.
func (i *timeoutBody) Close() error {
	if i.ended {
		return i.ReadCloser.Close()
	}
	i.connection.SetReadDeadline(time.Now().Add(i.quiet))
	defer i.connection.SetReadDeadline(time.Time{})
	return i.ReadCloser.Close()
}

// timeoutWriter writes the answer to a request. It fails if the client accepts no data for some
// time.
type timeoutWriter struct {
	http.ResponseWriter
	body *timeoutBody
}

// withTimeouts returns a writer for the answer to a request, with the body of the request. The
// caller must call begin after the answer.
func withTimeouts(w http.ResponseWriter, r *http.Request, quiet time.Duration) *timeoutWriter {
	return &timeoutWriter{w, &timeoutBody{r.Body, http.NewResponseController(w), quiet, r.Body == http.NoBody}}
}

// begin sets the deadlines for a write, or for the rest of the answer, which net/http writes after
// the handler has returned. Before its first write, net/http reads the rest of the body. If the
// body has ended, net/http waits for the end of the connection, which must have no deadline.
func (o *timeoutWriter) begin() {
	deadline := time.Now().Add(o.body.quiet)
	if !o.body.ended {
		o.body.connection.SetReadDeadline(deadline)
		deadline = deadline.Add(o.body.quiet)
	}
	o.body.connection.SetWriteDeadline(deadline)
}

// done removes the deadlines, because a stream can be silent for a long time.
func (o *timeoutWriter) done() {
	o.body.connection.SetWriteDeadline(time.Time{})
	if !o.body.ended {
		o.body.connection.SetReadDeadline(time.Time{})
	}
}

// Write sends small parts. So a slow client gets a large answer if it reads all the time.
func (o *timeoutWriter) Write(b []byte) (n int, err error) {
	defer o.done()
	for {
		o.begin()
		m, err := o.ResponseWriter.Write(b[n:min(n+downloadPart, len(b))])
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Flush implements http.Flusher, which the SDK for MCP needs.
func (o *timeoutWriter) Flush() { o.FlushError() }

// FlushError sends buffered data. http.ResponseController calls it.
func (o *timeoutWriter) FlushError() error {
	defer o.done()
	o.begin()
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController use the other methods of the original writer.
func (o *timeoutWriter) Unwrap() http.ResponseWriter { return o.ResponseWriter }
