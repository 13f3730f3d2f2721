// Package passive marks requests that only look at a sandbox. Such a request does not restart the
// time after which an unused sandbox is paused, and it does not resume a paused sandbox.
package passive

import (
	"context"
	"net/http"
)

// Header is the header of passive requests, with the value "true".
const Header = "Pyro-Passive"

type key struct{}

// Context returns a context for passive requests.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether a context is one of Context.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }

// Marked reports whether a request has the header.
func Marked(r *http.Request) bool { return r.Header.Get(Header) == "true" }

// Mark sets the header of a request whose context is one of Context.
func Mark(r *http.Request) {
	if Is(r.Context()) {
		r.Header.Set(Header, "true")
	}
}

// Handler calls the next handler. If the request has the header, it marks the context as [Context]
// does.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Marked(r) {
			r = r.WithContext(Context(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}
