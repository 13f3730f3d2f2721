// Package oci pulls images from OCI registries and flattens their layers into one archive.
//
// Data from a registry is not trusted. The package checks every blob against its digest before use,
// and limits sizes, counts and names.
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

// listAction is the action that lists the names that need no registry.
var listAction = fault.Act("vm_list_environments", "pyro env list")

// Parse parses a reference such as "alpine:3.20" or "localhost:5000/tool:1". A reference can
// contain a digest. Errors have kind Invalid.
func Parse(reference string) (name.Reference, error) {
	const longest = 512
	if len(reference) > longest {
		return nil, fault.New(fault.Invalid, "read reference", reference[:40]+"…", "it is longer than %d bytes", longest)
	}
	ref, err := name.ParseReference(reference)
	if slices.Contains(strings.Split(reference, "/"), "..") {
		err = errors.New(`the name contains ".."`) // The library does not check this.
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "read reference", reference, "%w", err).WithHint("%s", listAction)
	}
	return ref, nil
}

// IsTag reports whether a reference has a tag and no digest.
func IsTag(ref name.Reference) bool {
	_, is := ref.(name.Tag)
	return is
}

// explain sets the kind and the hint of an error from a registry.
func explain(err error, op string, ref name.Reference) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if inner := (*fault.Error)(nil); errors.As(err, &inner) {
		return err
	}
	f := &fault.Error{Op: op, Subject: ref.Name(), Kind: fault.Unavailable, Err: err, Hint: "check the network and that " + ref.Context().RegistryStr() + " answers"}
	// The digest errors of the library have no type of their own.
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
	var refused *unreachable
	if errors.As(err, &refused) {
		f.Kind, f.Err = fault.Permission, refused
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusNotFound:
			f.Kind = fault.NotFound
			f.WithHint("check the name and the tag, or `%s`", listAction)
		case http.StatusUnauthorized, http.StatusForbidden:
			f.Kind, f.Hint = fault.Permission, "check the name, or `docker login "+ref.Context().RegistryStr()+"`"
		case http.StatusTooManyRequests:
			f.Hint = "wait, or `docker login " + ref.Context().RegistryStr() + "`"
		}
	}
	return f
}
