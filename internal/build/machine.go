package build

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/network/egress"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/supervisor"
)

// guest is the machine for the steps of a stage. It starts with the base of the stage.
type guest struct {
	*supervisor.Machine
	layers int       // number of layers of the stage that the machine has
	files  inventory // the files before the next step
}

// startGuest starts a machine with the base of a stage.
func (b *builder) startGuest(ctx context.Context, s *state) (*guest, error) {
	renamed := progress.Func(func(e progress.Event) { // users know the base by its name
		e.Subject = s.base.Name
		b.Progress.Report(e)
	})
	cfg := supervisor.Config{
		Dirs: b.manager.Dirs, Driver: b.driver, VCPUs: b.VCPUs, MemMiB: b.MemMiB, Progress: renamed, HostNetwork: b.HostNetwork,
		Root: machine.Root{Digest: s.base.Digest, Image: s.base.Image},
	}
	if b.Network {
		policy, err := egress.NewOpen(b.Egress.Allow, b.Egress.Deny, b.Egress.Open)
		if err != nil {
			return nil, err
		}
		cfg.Network = &supervisor.Network{Policy: policy}
	}
	started, err := supervisor.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &guest{Machine: started}, nil
}

// update brings a machine to the state of its stage: it adds the layers that the machine lacks.
// Then it lists the files, unless they are known.
func (b *builder) update(ctx context.Context, g *guest, s *state) error {
	for ; g.layers < len(s.layers); g.layers++ {
		lower, err := s.tree(ctx, b.layers, g.layers)
		if err != nil {
			return err
		}
		if err := b.apply(ctx, g, lower, s.layers[g.layers]); err != nil {
			return err
		}
		g.files = nil
	}
	if g.files != nil {
		return nil
	}
	var err error
	g.files, err = takeInventory(ctx, g.Agent)
	return err
}

// apply adds a layer to a machine that has the files of the tree lower.
func (b *builder) apply(ctx context.Context, g *guest, lower view.Tree, digest string) error {
	file, err := b.layers.Open(digest)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := removeHidden(ctx, g.Agent, lower, file); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = g.Agent.PutTree(ctx, "/", nil, file)
	return err
}

// removeHidden removes the files of a machine that a layer removes or replaces by something of
// another kind.
func removeHidden(ctx context.Context, agent *client.Client, lower view.Tree, layer io.Reader) error {
	for archive := tar.NewReader(layer); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimSuffix(h.Name, "/"))
		info, err := lower.Lstat(name)
		if err != nil {
			continue // there is nothing below the new entry
		}
		whiteout := h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0
		opaque := h.PAXRecords["SCHILY.xattr.trusted.overlay.opaque"] == "y"
		if !whiteout && !opaque && info.IsDir() == (h.Typeflag == tar.TypeDir) {
			continue
		}
		if err := agent.Remove(ctx, "/"+name); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
}

// list is the path of the list of changed files. No layer contains it.
const list = "/dev/.pyro-changed"

// layerOf creates a layer of the changes of a machine since its files were listed. The layer is
// empty if nothing has changed.
func (b *builder) layerOf(ctx context.Context, g *guest) (layer string, err error) {
	now, err := takeInventory(ctx, g.Agent)
	if err != nil {
		return "", err
	}
	found := compare(g.files, now)
	g.files = now
	if found.empty() {
		return "", nil
	}
	names := strings.Join(found.changed, "\x00") + "\x00"
	if err := g.Agent.WriteFile(ctx, client.FileSpec{Path: list, Size: int64(len(names))}, strings.NewReader(names)); err != nil {
		return "", err
	}
	layer, err = b.layers.Add(ctx, func(to io.Writer) error {
		packed, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := g.Agent.GetList(ctx, list, w)
			w.CloseWithError(err)
			done <- err
		}()
		err := found.writeLayer(packed, to)
		packed.CloseWithError(err)
		if packErr := <-done; err == nil {
			err = packErr
		}
		return err
	})
	if err != nil {
		return "", err
	}
	g.layers++
	return layer, nil
}
