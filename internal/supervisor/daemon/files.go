package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/content"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/supervisor/remote"
)

// handleFiles serves the file service.
func (s *server) handleFiles(mux *http.ServeMux) {
	agent := s.daemon.machine.Agent
	read := func(give func(ctx context.Context, q url.Values, to io.Writer) error) http.Handler {
		return s.operation(func(w *content.Answer, r *http.Request) error { return give(r.Context(), r.URL.Query(), w) })
	}
	mux.Handle("GET "+remote.FilePath, read(func(ctx context.Context, q url.Values, to io.Writer) error {
		part, err := content.RangeOf(q)
		if err != nil {
			return err
		}
		_, err = agent.ReadVolumeFile(ctx, q.Get("path"), part.Offset, part.Limit, to)
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
	mux.Handle("PUT "+remote.FilePath, s.operation(func(w *content.Answer, r *http.Request) error {
		f, err := content.FileOf(r.URL.Query())
		if err != nil {
			return err
		}
		return agent.WriteVolumeFile(r.Context(), client.FileSpec{Path: f.Path, Mode: fs.FileMode(f.Mode).Perm(), MakeParents: true, Size: f.Size}, r.Body)
	}))
	mux.Handle("PUT "+remote.ChangePath, s.operation(func(w *content.Answer, r *http.Request) error {
		counts, err := agent.Change(r.Context(), r.Body, -1)
		if err != nil {
			return err
		}
		return remote.WriteChanged(w, remote.Changed{Created: counts.Created, Replaced: counts.Replaced, Deleted: counts.Deleted, Bytes: counts.Bytes})
	}))
	s.handlePlace(mux)
	s.handleDial(mux)
}

// handlePlace serves requests with absolute paths in the machine's file system.
func (s *server) handlePlace(mux *http.ServeMux) {
	agent := s.daemon.machine.Agent
	on := func(pattern string, do func(ctx context.Context, q url.Values, path string, w *content.Answer, r *http.Request) error) {
		mux.Handle(pattern, s.operation(func(w *content.Answer, r *http.Request) error {
			q := r.URL.Query()
			return do(r.Context(), q, q.Get("path"), w, r)
		}))
	}
	on("GET "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, w *content.Answer, _ *http.Request) error {
		_, err := agent.ReadFile(ctx, path, 0, 0, w)
		return err
	})
	on("PUT "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, _ *content.Answer, r *http.Request) error {
		return agent.WriteFile(ctx, client.FileSpec{Path: path, MakeParents: true, Size: -1}, r.Body)
	})
	on("DELETE "+remote.MachineFilePath, func(ctx context.Context, _ url.Values, path string, _ *content.Answer, _ *http.Request) error {
		return agent.Remove(ctx, path)
	})
	on("PUT "+remote.MachineFolderPath, func(ctx context.Context, _ url.Values, path string, _ *content.Answer, _ *http.Request) error {
		return agent.MakeFolder(ctx, path)
	})
	on("PUT "+remote.MachineRenamePath, func(ctx context.Context, q url.Values, path string, _ *content.Answer, _ *http.Request) error {
		return agent.Rename(ctx, path, q.Get("to"))
	})
	on("GET "+remote.MachineListPath, func(ctx context.Context, q url.Values, path string, w *content.Answer, _ *http.Request) error {
		depth, err := content.Number(q, "depth")
		if err != nil {
			return err
		}
		return copyList(w, func(each func(listing.Entry) error) error {
			return agent.ListMachine(ctx, path, int(min(depth, listing.MaxPath)), each)
		})
	})
	on("GET "+remote.MachineTreePath, func(ctx context.Context, q url.Values, path string, w *content.Answer, _ *http.Request) error {
		_, err := agent.GetTree(ctx, path, q.Get("as"), w)
		return err
	})
	on("PUT "+remote.MachineTreePath, func(ctx context.Context, q url.Values, path string, w *content.Answer, r *http.Request) error {
		owner, err := ownerOf(q)
		if err != nil {
			return err
		}
		done, err := agent.PutTree(ctx, path, owner, r.Body)
		if err != nil {
			return err
		}
		return remote.WriteUnpacked(w, remote.Unpacked(done))
	})
	mux.HandleFunc("GET "+remote.UsagePath, s.usage)
}

// ownerOf returns the owner in a query, or nil if it has none.
func ownerOf(q url.Values) (*client.Owner, error) {
	if !q.Has("uid") && !q.Has("gid") {
		return nil, nil
	}
	uid, err1 := content.Number(q, "uid")
	gid, err2 := content.Number(q, "gid")
	return &client.Owner{UID: int(uid), GID: int(gid)}, errors.Join(err1, err2)
}

// copyList encodes a list entry by entry, so that unchecked data from a machine does not reach
// clients.
func copyList(to io.Writer, list func(each func(listing.Entry) error) error) error {
	w := listing.NewWriter(to)
	if err := list(func(e listing.Entry) error { return w.Add([]byte(e.Path), &e.Attributes, []byte(e.Target)) }); err != nil {
		return err
	}
	return w.Close()
}

// operation returns a handler for an operation of the file service.
func (s *server) operation(do func(*content.Answer, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content.Serve(w, encodeError, func(w *content.Answer) error {
			done, err := s.begin(r.Context())
			if err != nil {
				return err
			}
			defer done()
			return do(w, r)
		})
	})
}

// encodeError returns the HTTP status of an error, and the value of [content.ErrorField] for it.
func encodeError(err error) (status int, text string) {
	if errors.Is(err, content.ErrQuery) {
		err = fault.Newf(fault.Invalid, "%w", err)
	}
	return fault.HTTPStatus(fault.KindOf(err)), remote.EncodeError(err)
}
