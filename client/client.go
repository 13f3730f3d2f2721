// Package client is a client of the HTTP API of "pyro serve". Almost all of it is generated from
// the OpenAPI document of the server; see docs/api.md.
package client

import (
	"context"
	"net/http"
)

// New returns a client of the server at an address such as http://127.0.0.1:8080, which sends an
// API key with each request.
func New(address, key string, options ...ClientOption) (*ClientWithResponses, error) {
	send := WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("X-API-Key", key)
		return nil
	})
	return NewClientWithResponses(address, append([]ClientOption{send}, options...)...)
}
