// Package oci pulls images from OCI registries and flattens their layers into one archive.
//
// Everything that a registry sends is hostile: every blob is checked against its digest before it is opened, and sizes, counts and names are bounded.
package oci

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// toList is what tells which names need no registry.
var toList = fault.Act("vm_list_environments", "pyro env list")

// Parse reads a reference such as "alpine:3.20", "localhost:5000/tool:1" or one with a digest. The kind of its error is Invalid.
func Parse(reference string) (name.Reference, error) {
	const longest = 512
	if len(reference) > longest {
		return nil, fault.New(fault.Invalid, "read reference", reference[:40]+"…", "longer than %d characters", longest)
	}
	ref, err := name.ParseReference(reference)
	if slices.Contains(strings.Split(reference, "/"), "..") {
		err = errors.New("a part of the name climbs") // which the library lets through
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "read reference", reference, "%w", err).WithHint("%s", toList)
	}
	return ref, nil
}

// explain gives errors of a registry their kind and a hint.
func explain(err error, op string, ref name.Reference) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if inner := (*fault.Error)(nil); errors.As(err, &inner) {
		return err
	}
	f := &fault.Error{Op: op, Subject: ref.Name(), Kind: fault.Unavailable, Err: err, Hint: "check the network and that " + ref.Context().RegistryStr() + " answers"}
	// The library's own checks against a digest have no type.
	text := err.Error()
	mismatch := strings.Contains(text, "error verifying ") || strings.Contains(text, "does not match requested digest") ||
		strings.Contains(text, "does not match expected size")
	var syntax *json.SyntaxError
	var field *json.UnmarshalTypeError
	if mismatch || errors.As(err, &syntax) || errors.As(err, &field) {
		f.Kind, f.Hint = fault.Corrupt, ""
	}
	var disk *fs.PathError
	if errors.As(err, &disk) {
		f.Kind, f.Hint = fault.KindOf(disk), ""
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusNotFound:
			f.Kind = fault.NotFound
			f.WithHint("check the name and the tag, or `%s`", toList)
		case http.StatusUnauthorized, http.StatusForbidden:
			f.Kind, f.Hint = fault.Permission, "check the name, or `docker login "+ref.Context().RegistryStr()+"`"
		case http.StatusTooManyRequests:
			f.Hint = "wait, or `docker login " + ref.Context().RegistryStr() + "`"
		}
	}
	return f
}
