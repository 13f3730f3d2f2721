// Package rootfolder provides an environment as a folder on the host. It is for drivers whose
// machines don't start from a disk image.
//
// The folder is in a template. The first start of a machine on an environment writes the folder,
// and later starts share it. Machines must not write to it. A driver mounts an overlay over it, or
// copies it with internal/disk/tree.
package rootfolder

import (
	"context"
	"fmt"
	"os"

	"github.com/pyro-mcp/pyro/internal/disk/ext4"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// form is part of the template's key. Change it if this package writes a folder in a different way.
const form = "root-folder-1"

// name is the name of the folder in the template.
const name = "root"

// Folder is the folder of an environment. It is not removed before Close.
type Folder struct {
	Path string // the owner is root if pyro runs as root, otherwise pyro's user

	template *template.Template
}

// Close marks the folder as unused. Idempotent.
func (f *Folder) Close() { f.template.Close() }

func keyOf(root machine.Root) template.Key {
	// The key includes the user, because all files belong to the user if pyro is not root.
	return template.Key{Form: form, Root: root.Digest, Host: fmt.Sprintf("uid %d", os.Geteuid())}
}

// Open returns the folder of an environment. If the folder is missing or damaged, Open writes it,
// which takes seconds. The caller must close the Folder after the machine has ended.
//
// If pyro is root, Open preserves owners, devices and extended attributes. Otherwise pyro's user
// owns all files, and Open leaves out devices and the set-user-ID and set-group-ID bits. In both
// cases it leaves out access control lists.
func Open(ctx context.Context, store template.Store, root machine.Root, report progress.Func) (*Folder, error) {
	t, err := store.Open(keyOf(root))
	if err != nil {
		if fault.KindOf(err) == fault.Corrupt {
			report.Phase("the environment's folder is damaged, writing it again", root.Image)
		}
		waiting := func() { report.Phase("waiting for another pyro that writes the same folder", root.Image) }
		t, err = store.Build(ctx, keyOf(root), waiting, func(ctx context.Context, dir string) error {
			report.Phase("writing the environment to a folder", root.Image)
			return extract(ctx, root.Image, dir+"/"+name)
		})
	}
	if err != nil {
		return nil, err
	}
	return &Folder{t.Path(name), t}, nil
}

// Ready records in r if Open would have to write the folder. It is for [machine.Driver].Ready.
func Ready(store template.Store, root machine.Root, r *machine.Readiness) error {
	t, err := store.Open(keyOf(root))
	switch fault.KindOf(err) {
	case "":
		t.Close()
	case fault.NotFound:
		r.Missing = "there is no folder of the environment"
	case fault.Corrupt:
		r.Missing, r.Damaged = "the folder of the environment is damaged", true
	default:
		return err
	}
	return nil
}

// Invalidate removes the folder, for [machine.Driver].Invalidate. Running machines can still use
// their folder.
func Invalidate(ctx context.Context, store template.Store, root machine.Root) error {
	return store.Detach(ctx, keyOf(root))
}

// extract writes the files in an image to a new folder.
func extract(ctx context.Context, image, folder string) error {
	f, err := os.Open(image)
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := ext4.OpenFile(f)
	if err != nil {
		return err
	}
	x := extractor{ctx: ctx, from: from, to: folder, root: os.Geteuid() == 0, links: map[uint64]string{}}
	return x.folder(".")
}
