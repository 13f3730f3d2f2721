package content

import (
	"io"
	"net/http"
	"sync"
)

// MaxDrained is how much of an answer End reads after its content, in bytes.
const MaxDrained = 64 << 10

// Failed returns the text of the error in the header, and whether there is one.
func Failed(answer *http.Response) (text string, failed bool) {
	text = answer.Header.Get(ErrorField)
	return text, text != ""
}

// End reads the rest of an answer after its content, at most [MaxDrained] bytes. It returns the
// text of the error in the trailers, or whether the content is complete. err is the error from
// reading.
func End(answer *http.Response) (text string, whole bool, err error) {
	if _, err = io.Copy(io.Discard, io.LimitReader(answer.Body, MaxDrained)); err != nil {
		return "", false, err
	}
	text = answer.Trailer.Get(ErrorField)
	return text, text == "" && answer.Trailer.Get(WholeField) != "", nil
}

// Reader records the errors of From. So callers can distinguish them from other errors of a call
// that reads from the Reader. Two goroutines can use a Reader.
type Reader struct {
	From io.Reader

	mu  sync.Mutex
	any bool
	err error
}

// Read reads from From.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.From.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.any = r.any || n > 0
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// Err returns the last error of From other than [io.EOF].
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Any reports whether Read has returned any data.
func (r *Reader) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.any
}
