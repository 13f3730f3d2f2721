package build

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/agent/listing"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// inventory describes all files of a machine by their paths, without a slash at the start.
type inventory map[string]listing.Attributes

// maxFiles is the maximum number of files of a machine for RUN steps.
const maxFiles = 1 << 20

// maxPaths is the maximum length of all paths of a machine for RUN steps, in bytes.
const maxPaths = 256 << 20

// generated are the folders whose content the kernel of a machine makes. No layer contains them.
var generated = []string{"proc", "sys", "dev"}

// takeInventory lists the files of a machine.
func takeInventory(ctx context.Context, agent *client.Client) (inventory, error) {
	found := inventory{}
	var folders []string
	paths := 0
	err := agent.ListMachine(ctx, "/", 1, func(e listing.Entry) error {
		if slices.Contains(generated, e.Path) {
			return nil
		}
		found[cmp.Or(e.Path, ".")] = e.Attributes
		if e.Path != "" && e.Kind == listing.Folder {
			folders = append(folders, e.Path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		err := agent.ListMachine(ctx, "/"+folder, listing.MaxPath, func(e listing.Entry) error {
			name := path.Join(folder, e.Path)
			found[name] = e.Attributes
			if len(found) > maxFiles {
				return fault.Newf(fault.Exhausted, "the machine has more than %d files", maxFiles)
			}
			if paths += len(name); paths > maxPaths {
				return fault.Newf(fault.Exhausted, "the paths of the machine's files have more than %d MiB", maxPaths>>20)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// changes are the differences between two inventories of a machine.
type changes struct {
	changed []string // new and changed paths, and all folders above changes, sorted
	removed []string // removed paths, without those below a removed path, sorted
}

// compare returns the changes from one inventory to the next. Every change to a file changes its
// mark, because programs can't set the change time.
func compare(before, after inventory) changes {
	changed, removed := map[string]bool{}, map[string]bool{}
	touch := func(name string) {
		for ; !changed[name]; name = path.Dir(name) {
			changed[name] = true
		}
	}
	for name, now := range after {
		was, known := before[name]
		if !known || was.Mark() != now.Mark() || was.UID != now.UID || was.GID != now.GID || was.Kind != now.Kind {
			touch(name)
		}
	}
	for name := range before {
		if _, kept := after[name]; kept || name == "." {
			continue
		}
		above, exists := after[path.Dir(name)]
		if exists && above.Kind == listing.Folder { // otherwise the path above is removed or replaced
			removed[name] = true
			touch(path.Dir(name))
		}
	}
	return changes{slices.Sorted(maps.Keys(changed)), slices.Sorted(maps.Keys(removed))}
}

func (c changes) empty() bool { return len(c.changed)+len(c.removed) == 0 }

// writeLayer writes the changes as an archive in the format of [view.Over]. packed is an archive of
// the changed files that the machine wrote, so nothing in it is trusted.
func (c changes) writeLayer(packed io.Reader, to io.Writer) error {
	in, out := tar.NewReader(packed), tar.NewWriter(to)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.Newf(fault.Corrupt, "the machine sent a damaged archive: %w", err)
		}
		name := path.Clean(strings.Trim(h.Name, "/"))
		if _, known := slices.BinarySearch(c.changed, name); !known {
			return fault.Newf(fault.Corrupt, "the machine sent a file that pyro did not request")
		}
		h.Format = tar.FormatPAX
		h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
		if err := out.WriteHeader(h); err != nil {
			return fault.Newf(fault.Corrupt, "the machine sent a damaged archive: %w", err)
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	for _, name := range c.removed {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: name, ModTime: epoch, Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	return out.Close()
}
