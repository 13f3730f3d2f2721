package build

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// mount is a file or folder that a step sees at a path, and that no layer contains. pyro copies it
// into the machine before the step. If the path exists, pyro moves the existing entry away until
// the step has ended.
type mount struct {
	target string // absolute path
	// put writes the content to the target. If the mount is a folder, the target exists and is
	// empty.
	put    func(ctx context.Context, g *guest) error
	keep   func(ctx context.Context, g *guest) error // stores the content after a successful step; can be nil
	env    string                                    // A variable for the step instead of a file.
	folder *tar.Header                               // Owner and mode of the folder at the target. Nil for other mounts.
	hash   string                                    // Of the content of a bind mount.
}

// aside is appended to the name of an entry that a mount hides.
const aside = ".pyro-hidden"

// mountsOf returns the mounts of a RUN instruction. It also checks the other flags.
func (b *builder) mountsOf(ctx context.Context, st *stage, c *instructions.RunCommand) ([]mount, error) {
	if network := instructions.GetNetwork(c); network != instructions.NetworkDefault {
		return nil, unsupported("RUN --network=%s", network)
	}
	for _, flag := range c.FlagsUsed {
		if flag == "security" || flag == "device" {
			return nil, unsupported("RUN --%s", flag)
		}
	}
	var all []mount
	for _, m := range instructions.GetMounts(c) {
		one, err := b.mountOf(ctx, st, m)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (b *builder) mountOf(ctx context.Context, st *stage, m *instructions.Mount) (mount, error) {
	target := m.Target
	if !path.IsAbs(target) {
		target = path.Join("/", st.state.config.WorkingDir, target)
	}
	target = path.Clean(target)
	if target == "/" && m.Type != instructions.MountTypeSecret {
		return mount{}, unsupported("a mount at /")
	}
	switch m.Type {
	case instructions.MountTypeTmpfs:
		return mount{target: target, folder: &tar.Header{Mode: 0o1777}, put: func(context.Context, *guest) error { return nil }}, nil
	case instructions.MountTypeSecret:
		return b.secretMount(m, target)
	case instructions.MountTypeCache:
		return b.cacheMount(m, target)
	case instructions.MountTypeBind:
		return b.bindMount(ctx, st, m, target)
	}
	return mount{}, unsupported("RUN --mount=type=%s", m.Type)
}

// secretMount provides a secret of the caller as a file or a variable.
func (b *builder) secretMount(m *instructions.Mount, target string) (mount, error) {
	id := m.CacheID
	if id == "" {
		id = path.Base(m.Source)
	}
	if m.Target == "" {
		target = "/run/secrets/" + id
	}
	value, known := b.Secrets[id]
	if !known {
		if m.Required {
			return mount{}, fault.Newf(fault.Invalid, "the step needs the secret %q", id).WithHint("--secret id=%s,src=FILE", id)
		}
		return mount{}, nil
	}
	var one mount
	if m.Env != nil {
		name := *m.Env
		if name == "" {
			name = id
		}
		one.env = name + "=" + value.Reveal()
		if m.Target == "" {
			return one, nil
		}
	}
	header := attributes(m, 0o400)
	header.Mode &= 0o777
	one.target = target
	one.put = func(ctx context.Context, g *guest) error {
		return putEntry(ctx, g, target, tar.TypeReg, header, value.Reveal())
	}
	return one, nil
}

// attributes returns the owner and the mode of a mount.
func attributes(m *instructions.Mount, mode int64) *tar.Header {
	h := &tar.Header{Mode: mode}
	if m.Mode != nil {
		h.Mode = int64(*m.Mode & 0o7777)
	}
	if m.UID != nil {
		h.Uid = int(*m.UID)
	}
	if m.GID != nil {
		h.Gid = int(*m.GID)
	}
	return h
}

// putEntry writes a small file, or sets the owner and the mode of a folder.
func putEntry(ctx context.Context, g *guest, target string, kind byte, attributes *tar.Header, content string) error {
	in, out := io.Pipe()
	go func() {
		archive := tar.NewWriter(out)
		h := *attributes
		h.Typeflag, h.Name, h.Size, h.ModTime, h.Format = kind, path.Base(target), int64(len(content)), epoch, tar.FormatPAX
		err := archive.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(archive, content)
		}
		out.CloseWithError(errors.Join(err, archive.Close()))
	}()
	defer in.Close()
	_, err := g.Agent.PutTree(ctx, path.Dir(target), nil, in)
	return err
}

// cacheMount provides a folder that outlives the build. Concurrent builds have their own copies.
// The cache keeps the copy of the build that ends last.
func (b *builder) cacheMount(m *instructions.Mount, target string) (mount, error) {
	if m.From != "" {
		return mount{}, unsupported("RUN --mount=type=cache,from=%s", m.From)
	}
	id := m.CacheID
	if id == "" {
		id = target
	}
	sum := sha256.Sum256([]byte(id))
	name := hex.EncodeToString(sum[:])
	return mount{
		target: target, folder: attributes(m, 0o755),
		put: func(ctx context.Context, g *guest) error {
			file, err := b.layers.OpenCache(name)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = g.Agent.PutTree(ctx, target, nil, file)
			return err
		},
		keep: func(ctx context.Context, g *guest) error {
			return b.layers.KeepCache(ctx, name, func(to io.Writer) error {
				_, err := g.Agent.GetTree(ctx, target+"/", ".", to)
				return err
			})
		},
	}, nil
}

// bindMount provides files of the build context, of a stage or of an image.
func (b *builder) bindMount(ctx context.Context, st *stage, m *instructions.Mount, target string) (mount, error) {
	bound, err := b.bound(ctx, st, m, path.Base(target))
	if err != nil {
		return mount{}, err
	}
	sum, err := bound.hash(ctx)
	if err != nil {
		return mount{}, err
	}
	return mount{target: target, hash: sum, put: func(ctx context.Context, g *guest) error {
		in, out := io.Pipe()
		go func() { out.CloseWithError(bound.writeSame(ctx, out, sum)) }()
		defer in.Close()
		_, err := g.Agent.PutTree(ctx, path.Dir(target), nil, in)
		return err
	}}, nil
}

// bound collects the files of a bind mount, under the given name.
func (b *builder) bound(ctx context.Context, st *stage, m *instructions.Mount, name string) (*addition, error) {
	src, err := b.sourceOf(ctx, st, m.From)
	if err != nil {
		return nil, err
	}
	c := copying{from: *src, paths: []string{m.Source}, to: "/" + name}
	if at, err := resolve(src.tree, m.Source, true); err == nil {
		if info, err := src.tree.Lstat(at); err == nil && info.IsDir() {
			c.to += "/"
		}
	}
	a, err := c.collect(ctx, emptyTree{}, "/")
	if err != nil {
		return nil, err
	}
	delete(a.entries, ".")
	return a, nil
}

// mountKey returns the part of a step's key for its mounts. The content of bound files counts. The
// content of secrets and caches does not.
func mountKey(c *instructions.RunCommand, mounts []mount) []any {
	var key []any
	for i, m := range instructions.GetMounts(c) {
		key = append(key, m.Type, m.From, m.Source, m.Target, m.CacheID, m.Env, m.UID, m.GID, m.Mode, mounts[i].hash)
	}
	return key
}

// mount creates mounts. The caller must call unmount, which removes them and stores caches if the
// step has succeeded.
func (b *builder) mount(ctx context.Context, g *guest, mounts []mount) (unmount func(context.Context, bool) error, env []string, err error) {
	var made []func(context.Context, bool) error
	unmount = func(ctx context.Context, succeeded bool) error {
		var errs []error
		for i := range made {
			errs = append(errs, made[len(made)-1-i](ctx, succeeded))
		}
		return errors.Join(errs...)
	}
	for _, m := range mounts {
		if m.env != "" {
			env = append(env, m.env)
		}
		if m.put == nil {
			continue
		}
		undo, err := hide(ctx, g, m)
		if err != nil {
			return nil, nil, errors.Join(err, unmount(context.WithoutCancel(ctx), false))
		}
		made = append(made, undo)
		if err := m.put(ctx, g); err != nil {
			return nil, nil, errors.Join(err, unmount(context.WithoutCancel(ctx), false))
		}
	}
	return unmount, env, nil
}

// hide moves the entry at the target of a mount away. The returned function removes the mount and
// moves the entry back.
func hide(ctx context.Context, g *guest, m mount) (undo func(context.Context, bool) error, err error) {
	err = g.Agent.Rename(ctx, m.target, m.target+aside)
	hidden := err == nil
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil, err
	}
	if m.folder != nil {
		if err := g.Agent.MakeFolder(ctx, m.target); err != nil {
			return nil, err
		}
		if err := putEntry(ctx, g, m.target, tar.TypeDir, m.folder, ""); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, succeeded bool) error {
		var errs []error
		if succeeded && m.keep != nil {
			errs = append(errs, m.keep(ctx, g))
		}
		if err := g.Agent.Remove(ctx, m.target); err != nil && fault.KindOf(err) != fault.NotFound {
			errs = append(errs, err)
		}
		if hidden {
			errs = append(errs, g.Agent.Rename(ctx, m.target+aside, m.target))
		}
		return errors.Join(errs...)
	}, nil
}
