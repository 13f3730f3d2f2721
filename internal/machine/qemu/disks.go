package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// The disks of a machine, by the names of their devices. The machine knows them by these too (serial=).
const (
	rootDisk   = string(machine.RootDisk)
	volumeDisk = string(machine.VolumeDisk)
)

// layer is one file of a disk. All but the highest of a disk are only read.
type layer struct {
	file *os.File
	raw  bool     // else qcow2
	kept bool     // what the machine flushes is flushed on the host; else it is thrown away with the machine
	also *os.File // the same file opened for reading only, for a layer that is written now and will later lie below another
}

// layered gives the arguments for a disk of layers, the lowest first.
func layered(w *wiring, name string, layers ...layer) []string {
	var args []string
	below := ""
	nodes := nodesOf(name, len(layers))
	for i, l := range layers {
		last, node := i == len(layers)-1, nodes[i]
		files := []*os.File{l.file}
		if l.also != nil {
			files = append(files, l.also)
		}
		set, path := w.set(files...)
		args = append(args, set...)
		common := ",read-only=on"
		switch {
		case last && l.kept:
			common = ""
		case last:
			common = ",cache.no-flush=on"
		}
		form := "qcow2"
		if l.raw {
			form = "raw"
		}
		top := fmt.Sprintf("driver=%s,node-name=%s,file=%s-file%s", form, node, node, common)
		if !l.raw {
			top += backing(below)
		}
		args = append(args,
			"-blockdev", fmt.Sprintf("driver=file,node-name=%s-file,filename=%s,locking=off%s", node, path, common),
			"-blockdev", top)
		below = node
	}
	return args
}

// nodesOf names QEMU's nodes of a disk of so many layers, the lowest first. The highest has the name of the disk, by which its device finds it.
func nodesOf(name string, layers int) []string {
	var nodes []string
	for i := range layers {
		nodes = append(nodes, fmt.Sprintf("%s-%d", name, i))
	}
	if layers > 0 {
		nodes[layers-1] = name
	}
	return nodes
}

// backing says what a layer lies on, whatever its header says.
func backing(node string) string {
	if node == "" {
		return ",backing="
	}
	return ",backing=" + node
}

// noDisk gives a disk that reads as zeros. It takes the place of one that a machine has not, so that all have the same devices.
func noDisk(name string) []string {
	return []string{"-blockdev", fmt.Sprintf("driver=null-co,node-name=%s,size=%d,read-zeroes=on", name, diskSize)}
}

// layers are those of a disk that is kept, opened for QEMU.
func (o *opener) layers(paths []string, lowestRaw bool) []layer {
	var all []layer
	for i, path := range paths {
		l := layer{raw: lowestRaw && i == 0, kept: true}
		if i == len(paths)-1 {
			l.file, l.also = o.open(path, os.O_RDWR), o.open(path, os.O_RDONLY)
		} else {
			l.file = o.open(path, os.O_RDONLY)
		}
		all = append(all, l)
	}
	return all
}

// AddLayers has the machine write to new layers: both in one step of QEMU's, which it takes back where one of them fails.
func (in *instance) AddLayers(ctx context.Context, root, volume string) error {
	if err := in.layering.take(ctx); err != nil {
		return err
	}
	defer in.layering.leave()
	var files opener
	defer files.close()
	next := map[string]string{}
	var actions []any
	for _, d := range []struct{ name, path string }{{rootDisk, root}, {volumeDisk, volume}} {
		if d.path == "" {
			continue
		}
		node, err := in.addLayer(ctx, &files, d.name, d.path)
		if err != nil {
			return err
		}
		actions = append(actions, map[string]any{
			"type": "blockdev-snapshot", "data": map[string]string{"node": in.node(d.name), "overlay": node},
		})
		next[d.name] = node
	}
	// Where it does not answer, nobody knows which layers it writes to: the machine ends then.
	certain, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionPatience)
	defer cancel()
	if _, err := in.monitor.run(certain, command{"transaction", map[string]any{"actions": actions}}); err != nil {
		if certain.Err() != nil {
			in.end(fault.New(fault.Unavailable, "give the machine new layers", "", "QEMU does not answer"))
			in.Close()
		}
		return err
	}
	for name, node := range next {
		in.nodes[name] = append(in.nodes[name], node)
	}
	return nil
}

// transactionPatience bounds how long QEMU may take to change the layers of its disks.
const transactionPatience = 30 * time.Second

// turn is held by who changes the layers of a machine, or needs them not to change.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) leave() { <-t }

// addLayer opens a new layer in QEMU, over nothing yet.
func (in *instance) addLayer(ctx context.Context, files *opener, name, path string) (node string, err error) {
	rw, ro := files.open(path, os.O_RDWR), files.open(path, os.O_RDONLY)
	if files.err != nil {
		return "", files.err
	}
	in.added++
	set := firstAddedSet + in.added
	for _, f := range []*os.File{rw, ro} {
		if err := in.monitor.giveTo(ctx, set, f); err != nil {
			return "", err
		}
	}
	node = fmt.Sprintf("%s-added-%d", name, in.added)
	file := map[string]any{"driver": "file", "node-name": node + "-file", "filename": setPath(set), "locking": "off"}
	top := map[string]any{"driver": "qcow2", "node-name": node, "file": node + "-file", "backing": nil}
	_, err = in.monitor.run(ctx, command{"blockdev-add", file}, command{"blockdev-add", top})
	return node, err
}

// firstAddedSet is above all sets that a QEMU inherits.
const firstAddedSet = 1000

// node is the node that a disk's device writes to now.
func (in *instance) node(disk string) string {
	nodes := in.nodes[disk]
	return nodes[len(nodes)-1]
}

// Merge has QEMU copy what is in the layers between into the one that is written.
func (in *instance) Merge(ctx context.Context, disk machine.Disk, keep int) error {
	if err := in.layering.take(ctx); err != nil {
		return err
	}
	defer in.layering.leave()
	nodes := in.nodes[string(disk)]
	if disk == machine.RootDisk {
		keep++ // the environment's image, which is no layer of the machine's
	}
	if keep < 1 || keep >= len(nodes)-1 {
		return nil // there is nothing between
	}
	if err := in.stream(ctx, nodes[len(nodes)-1], nodes[keep-1]); err != nil {
		return err
	}
	if err := in.flush(ctx, nodes[len(nodes)-1], nodes[keep-1]); err != nil {
		return err
	}
	var unused []command
	for i := len(nodes) - 2; i >= keep; i-- {
		for _, node := range []string{nodes[i], nodes[i] + "-file"} {
			unused = append(unused, command{"blockdev-del", map[string]string{"node-name": node}})
		}
	}
	in.nodes[string(disk)] = append(nodes[:keep:keep], nodes[len(nodes)-1])
	_, err := in.monitor.run(ctx, unused...)
	return err
}

// flush has what QEMU knows of a node be in its file. To open it once more does that, to copy into it does not: where QEMU was killed then, what it had copied was lost,
// which the machine had flushed long before.
func (in *instance) flush(ctx context.Context, node, below string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
	defer cancel()
	same := map[string]string{"driver": "qcow2", "node-name": node, "file": node + "-file", "backing": below}
	_, err := in.monitor.run(ctx, command{"blockdev-reopen", map[string]any{"options": []any{same}}})
	return err
}

// flushPatience bounds how long a merged layer may take to be on the disk.
const flushPatience = 2 * time.Minute

// stream copies what lies between two nodes of a disk into the upper one, which then lies on the lower.
func (in *instance) stream(ctx context.Context, upper, lower string) error {
	const job = "merge"
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	in.mu.Lock()
	in.merged = ended
	in.mu.Unlock()
	// What QEMU was told to begin has to be told to end: so these words are not cut short.
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamPatience)
	defer cancel()
	_, err := in.monitor.run(short, command{"block-stream", map[string]string{"job-id": job, "device": upper, "base-node": lower}})
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-in.done:
		return in.Err()
	case <-ctx.Done():
	}
	short, cancel = context.WithTimeout(context.WithoutCancel(ctx), streamPatience)
	defer cancel()
	if _, err := in.monitor.run(short, command{"block-job-cancel", map[string]any{"device": job, "force": true}}); err == nil {
		select {
		case err := <-ended:
			if err == nil {
				return nil // it had been done by then
			}
		case <-in.done:
		case <-short.Done():
		}
	}
	return context.Cause(ctx)
}

// streamPatience bounds how long QEMU may take to begin copying, and to give it up.
const streamPatience = 10 * time.Second

// jobEnded takes QEMU's word that it has copied, or given up.
func (in *instance) jobEnded(name string, data json.RawMessage) {
	var event struct {
		Error string `json:"error"`
	}
	var err error
	if json.Unmarshal(data, &event); event.Error != "" {
		err = errors.New("QEMU could not merge the layers: " + event.Error)
	} else if name == "BLOCK_JOB_CANCELLED" {
		err = context.Canceled
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.merged != nil {
		in.merged <- err
		in.merged = nil
	}
}

var (
	_ machine.Layerer = (*instance)(nil)
	_ machine.Merger  = (*instance)(nil)
)
