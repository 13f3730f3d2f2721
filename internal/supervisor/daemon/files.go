package daemon

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// handleFiles serves the content of files.
func (s *server) handleFiles(mux *http.ServeMux) {
	agent := s.daemon.machine.Agent
	read := func(give func(ctx context.Context, q url.Values, to io.Writer) error) http.Handler {
		return s.operation(func(w http.ResponseWriter, r *http.Request) error { return give(r.Context(), r.URL.Query(), w) })
	}
	mux.Handle("GET "+remote.FilePath, read(func(ctx context.Context, q url.Values, to io.Writer) error {
		offset, err := number(q, "offset")
		if err != nil {
			return err
		}
		limit, err := number(q, "limit")
		if err != nil {
			return err
		}
		_, err = agent.ReadVolumeFile(ctx, q.Get("path"), offset, limit, to)
		return err
	}))
	mux.Handle("GET "+remote.ListPath, read(func(ctx context.Context, q url.Values, to io.Writer) error {
		return copyList(to, func(each func(listing.Entry) error) error {
			if q.Get("alone") != "1" {
				return agent.List(ctx, q.Get("path"), q.Get("recursive") == "1", each)
			}
			e, err := agent.StatVolume(ctx, q.Get("path"))
			if err != nil {
				return err
			}
			return each(e)
		})
	}))
	mux.Handle("GET "+remote.TreePath, read(func(ctx context.Context, q url.Values, to io.Writer) error {
		_, err := agent.ReadTree(ctx, q.Get("path"), to)
		return err
	}))
	mux.Handle("PUT "+remote.FilePath, s.operation(func(w http.ResponseWriter, r *http.Request) error {
		q := r.URL.Query()
		size, err := number(q, "size")
		if err != nil {
			return err
		}
		mode, err := number(q, "mode")
		if err != nil {
			return err
		}
		return agent.WriteVolumeFile(r.Context(), client.FileSpec{Path: q.Get("path"), Mode: remote.ModeOf(mode), MakeParents: true, Size: size}, r.Body)
	}))
	mux.Handle("PUT "+remote.ChangePath, s.operation(func(w http.ResponseWriter, r *http.Request) error {
		counts, err := agent.Change(r.Context(), r.Body, -1)
		if err != nil {
			return err
		}
		return remote.WriteChanged(w, remote.Changed{Created: counts.Created, Replaced: counts.Replaced, Deleted: counts.Deleted, Bytes: counts.Bytes})
	}))
	s.handlePlace(mux)
}

// handlePlace serves the files of the machine's whole file system.
func (s *server) handlePlace(mux *http.ServeMux) {
	agent := s.daemon.machine.Agent
	on := func(pattern string, do func(ctx context.Context, q url.Values, path string, w http.ResponseWriter, r *http.Request) error) {
		mux.Handle(pattern, s.operation(func(w http.ResponseWriter, r *http.Request) error {
			q := r.URL.Query()
			return do(r.Context(), q, q.Get("path"), w, r)
		}))
	}
	on("GET "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, w http.ResponseWriter, _ *http.Request) error {
		_, err := agent.ReadFile(ctx, path, 0, 0, w)
		return err
	})
	on("PUT "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, _ http.ResponseWriter, r *http.Request) error {
		return agent.WriteFile(ctx, client.FileSpec{Path: path, MakeParents: true, Size: -1}, r.Body)
	})
	on("DELETE "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, _ http.ResponseWriter, _ *http.Request) error {
		return agent.Remove(ctx, path)
	})
	on("PUT "+remote.MachineFolderPath, func(ctx context.Context, _ url.Values, path string, _ http.ResponseWriter, _ *http.Request) error {
		return agent.MakeFolder(ctx, path)
	})
	on("GET "+remote.MachineListPath, func(ctx context.Context, q url.Values, path string, w http.ResponseWriter, _ *http.Request) error {
		depth, err := number(q, "depth")
		if err != nil {
			return err
		}
		return copyList(w, func(each func(listing.Entry) error) error {
			return agent.ListPlace(ctx, path, int(min(depth, listing.MaxPath)), each)
		})
	})
	mux.HandleFunc("GET "+remote.UsagePath, s.usage)
}

// copyList passes a list on, entry by entry: what a machine sends goes no further unread.
func copyList(to io.Writer, list func(each func(listing.Entry) error) error) error {
	w := listing.NewWriter(to)
	if err := list(func(e listing.Entry) error { return w.Add([]byte(e.Path), &e.Attributes, []byte(e.Target)) }); err != nil {
		return err
	}
	return w.Close()
}

func number(q url.Values, name string) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Newf(fault.Invalid, "%s is %q", name, text)
	}
	return n, nil
}

// operation serves an operation on files. An error before the content begins is the answer; a later one is told at its end.
func (s *server) operation(do func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, err := s.begin(r.Context())
		if err == nil {
			defer done()
			answer := &answer{ResponseWriter: w}
			if err = do(answer, r); err != nil && answer.begun {
				w.Header().Set(http.TrailerPrefix+remote.ErrorTrailer, remote.EncodeError(err))
				return
			}
			if err == nil {
				w.Header().Set(http.TrailerPrefix+remote.WholeTrailer, "1")
			}
		}
		if err != nil {
			w.Header().Set(remote.ErrorTrailer, remote.EncodeError(err))
			w.WriteHeader(fault.HTTPStatus(fault.KindOf(err)))
		}
	})
}

// answer knows whether the content has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil // the header may still become that of an error
	}
	if !a.begun {
		a.begun = true
		a.Header().Set("Trailer", remote.ErrorTrailer+", "+remote.WholeTrailer) // HTTP/1.1 has none where the content is short, but if it is told before
	}
	return a.ResponseWriter.Write(b)
}
