package content

import "net/http"

// Answer is the answer of a server to one call.
type Answer struct {
	http.ResponseWriter
	begun bool
}

// Write writes content.
func (a *Answer) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // nothing is sent yet, so an error can still become the header
	}
	a.announce()
	return a.ResponseWriter.Write(p)
}

// Begin sends the header of a successful answer. A later error becomes a trailer.
func (a *Answer) Begin() error {
	a.announce()
	a.WriteHeader(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap returns the underlying writer for [http.NewResponseController].
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// announce declares the trailers. HTTP/1.1 drops undeclared trailers of a short answer.
func (a *Answer) announce() {
	if !a.begun {
		a.begun = true
		a.Header().Set("Trailer", ErrorField+", "+WholeField)
	}
}

// Trailer sets another trailer field.
func (a *Answer) Trailer(name, value string) { a.Header().Set(http.TrailerPrefix+name, value) }

// Serve answers one call with the content that the function do writes. The function encode returns
// the status and the text for an error.
func Serve(w http.ResponseWriter, encode func(error) (status int, text string), do func(*Answer) error) {
	a := &Answer{ResponseWriter: w}
	switch err := do(a); {
	case err == nil:
		a.Trailer(WholeField, "1")
	case a.begun:
		_, text := encode(err)
		a.Trailer(ErrorField, text)
	default:
		status, text := encode(err)
		w.Header().Set(ErrorField, text)
		w.WriteHeader(status)
	}
}
