package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/disk/erofs"
	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// gVisor reads EROFS images if they are not compressed and their inodes have no inline data. It
// maps files from these images, so all machines of an environment share the host's page cache. The
// first start on an environment writes the image of that environment. The agent has its own image,
// which is the root of every machine. Both images are templates. Machines can't write to them.

// These constants are the forms of the templates. Change them if the format changes.
const (
	environmentForm = "erofs-environment-1"
	agentForm       = "erofs-agent-2"
	imageFile       = "image.erofs"
)

// images are the open images of a machine. They count as in use until close.
type images struct {
	agent, environment *template.Template
}

func (i *images) close() {
	for _, t := range []*template.Template{i.agent, i.environment} {
		if t != nil {
			t.Close()
		}
	}
}

// images opens the images for a machine. It makes images that are missing.
func (d *Driver) images(ctx context.Context, spec machine.Spec) (*images, error) {
	var i images
	var err error
	if i.agent, err = d.agentImage(ctx, spec.Progress); err != nil {
		return nil, err
	}
	if i.environment, err = d.environmentImage(ctx, spec); err != nil {
		i.close()
		return nil, err
	}
	return &i, nil
}

// environmentKey and agentKey contain everything on which the two images depend.
func environmentKey(spec machine.Spec) template.Key {
	return template.Key{Form: environmentForm, Root: spec.Root.Digest}
}

func (d *Driver) agentKey() template.Key {
	return template.Key{Form: agentForm, Initramfs: d.cfg.Guest.Digest()}
}

func (d *Driver) environmentImage(ctx context.Context, spec machine.Spec) (*template.Template, error) {
	return d.image(ctx, environmentKey(spec), spec.Root.Image, spec.Progress, func(dir string, to *os.File) error {
		f, err := os.Open(spec.Root.Image)
		if err != nil {
			return err
		}
		defer f.Close()
		tree, err := ext4.OpenFile(f)
		if err != nil {
			return err
		}
		return erofs.Write(to, tree)
	})
}

// agentProgram is the path of the agent in its image.
const agentProgram = "/init"

// agentFolders are the mount points in the agent's image. The image has /etc because Prove also
// uses it as the environment.
var agentFolders = []string{"proc", "sys", "dev", "env", "volume", "etc", "run", "tmp"}

func (d *Driver) agentImage(ctx context.Context, report progress.Func) (*template.Template, error) {
	return d.image(ctx, d.agentKey(), "agent", report, func(dir string, to *os.File) error {
		tree, err := os.MkdirTemp(dir, "tree-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tree)
		if err := os.Chmod(tree, 0o755); err != nil {
			return err
		}
		for _, folder := range agentFolders {
			if err := os.Mkdir(filepath.Join(tree, folder), 0o755); err != nil {
				return err
			}
		}
		program, err := d.cfg.Guest.Bytes()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, agentProgram), program, 0o555); err != nil {
			return err
		}
		return erofs.Write(to, os.DirFS(tree))
	})
}

// image opens the image for a key. If there is no such image, it calls the function write to fill
// one. That function can put temporary files in dir.
func (d *Driver) image(ctx context.Context, key template.Key, subject string, report progress.Func, write func(dir string, to *os.File) error) (*template.Template, error) {
	t, err := d.templates.Open(key)
	if err == nil {
		return t, nil
	}
	if fault.KindOf(err) == fault.Corrupt {
		report.Phase("image for gVisor is damaged, making it again", subject)
	}
	waiting := func() { report.Phase("waiting for another pyro that makes the same image", subject) }
	return d.templates.Build(ctx, key, waiting, func(_ context.Context, dir string) error {
		if key.Root != "" {
			report.Phase("making the image for gVisor", subject)
		}
		f, err := os.OpenFile(filepath.Join(dir, imageFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o444)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := write(dir, f); err != nil {
			return fmt.Errorf("write the image for gVisor: %w", err)
		}
		return f.Sync()
	})
}
