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

// These are the names of a machine's disks. They are also the disks' serial numbers inside the
// machine.
const (
	rootDisk   = string(machine.RootDisk)
	volumeDisk = string(machine.VolumeDisk)
)

// layer is one file of a disk. The machine writes only to the top layer.
type layer struct {
	file    *os.File
	raw     bool     // raw, otherwise qcow2
	durable bool     // The machine's flushes reach the host. Otherwise the layer is deleted with the machine.
	also    *os.File // The same file, opened read-only, for the time after another layer is added on top.
}

// layered returns the arguments for a disk that consists of layers, the lowest first.
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
		case last && l.durable:
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

// nodesOf returns the names of QEMU's nodes for a disk, the lowest first. The top node has the name
// of the disk, and the disk's device refers to that name.
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

// backing returns the option that overrides the backing file in a layer's header.
func backing(node string) string {
	if node == "" {
		return ",backing="
	}
	return ",backing=" + node
}

// noDisk returns the arguments for a disk that reads as zeros. It replaces a missing disk, so that
// all machines have the same devices.
func noDisk(name string) []string {
	return []string{"-blockdev", fmt.Sprintf("driver=null-co,node-name=%s,size=%d,read-zeroes=on", name, diskSize)}
}

// layers opens the layers of a persistent disk.
func (o *opener) layers(paths []string, lowestRaw bool) []layer {
	var all []layer
	for i, path := range paths {
		l := layer{raw: lowestRaw && i == 0, durable: true}
		if i == len(paths)-1 {
			l.file, l.also = o.open(path, os.O_RDWR), o.open(path, os.O_RDONLY)
		} else {
			l.file = o.open(path, os.O_RDONLY)
		}
		all = append(all, l)
	}
	return all
}

// AddLayers makes the machine write to new layers. QEMU changes both disks in one transaction.
func (in *instance) AddLayers(ctx context.Context, root, volume string) error {
	if err := in.layering.lock(ctx); err != nil {
		return err
	}
	defer in.layering.unlock()
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
	// If QEMU does not answer, it is unknown which layers the machine writes to. The machine must
	// then end.
	certain, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
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

// transactionTimeout is how long QEMU can take to change layers.
const transactionTimeout = 30 * time.Second

// layerLock serializes changes to a machine's layers.
type layerLock chan struct{}

func (l layerLock) lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l layerLock) unlock() { <-l }

// addLayer opens a new layer in QEMU. The layer has no backing file yet.
func (in *instance) addLayer(ctx context.Context, files *opener, name, path string) (node string, err error) {
	rw, ro := files.open(path, os.O_RDWR), files.open(path, os.O_RDONLY)
	if files.err != nil {
		return "", files.err
	}
	in.added++
	set := firstAddedSet + in.added
	for _, f := range []*os.File{rw, ro} {
		if err := in.monitor.sendFileToSet(ctx, set, f); err != nil {
			return "", err
		}
	}
	node = fmt.Sprintf("%s-added-%d", name, in.added)
	file := map[string]any{"driver": "file", "node-name": node + "-file", "filename": setPath(set), "locking": "off"}
	top := map[string]any{"driver": "qcow2", "node-name": node, "file": node + "-file", "backing": nil}
	_, err = in.monitor.run(ctx, command{"blockdev-add", file}, command{"blockdev-add", top})
	return node, err
}

// firstAddedSet is higher than the numbers of all descriptor sets that a QEMU process inherits.
const firstAddedSet = 1000

// node returns the name of the node to which a disk's device writes.
func (in *instance) node(disk string) string {
	nodes := in.nodes[disk]
	return nodes[len(nodes)-1]
}

// Merge makes QEMU copy the layers above the lowest ones into the top layer. The parameter keep is
// the number of the lowest layers.
func (in *instance) Merge(ctx context.Context, disk machine.Disk, keep int) error {
	if err := in.layering.lock(ctx); err != nil {
		return err
	}
	defer in.layering.unlock()
	nodes := in.nodes[string(disk)]
	if disk == machine.RootDisk {
		keep++ // the environment's image, which does not count as a layer
	}
	if keep < 1 || keep >= len(nodes)-1 {
		return nil // there are no layers to copy
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

// flush makes QEMU write its metadata for a node to the file. QEMU does that when it reopens the
// node, but not when it copies data into the node. Without the flush, a killed QEMU would lose
// copied data, even if the machine had flushed this data long before the merge.
func (in *instance) flush(ctx context.Context, node, below string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	same := map[string]string{"driver": "qcow2", "node-name": node, "file": node + "-file", "backing": below}
	_, err := in.monitor.run(ctx, command{"blockdev-reopen", map[string]any{"options": []any{same}}})
	return err
}

// flushTimeout is how long QEMU can take to flush a merged layer.
const flushTimeout = 2 * time.Minute

// stream copies all nodes between upper and lower into upper. After that, lower is the backing file
// of upper.
func (in *instance) stream(ctx context.Context, upper, lower string) error {
	const job = "merge"
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	in.mu.Lock()
	in.merged = ended
	in.mu.Unlock()
	// If QEMU got the command to start, it must also get the command to stop. So a cancelled ctx
	// must not interrupt the first command.
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamTimeout)
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
	short, cancel = context.WithTimeout(context.WithoutCancel(ctx), streamTimeout)
	defer cancel()
	if _, err := in.monitor.run(short, command{"block-job-cancel", map[string]any{"device": job, "force": true}}); err == nil {
		select {
		case err := <-ended:
			if err == nil {
				return nil // the job was already complete
			}
		case <-in.done:
		case <-short.Done():
		}
	}
	return context.Cause(ctx)
}

// streamTimeout is how long QEMU can take to answer the commands that start and stop copying.
const streamTimeout = 10 * time.Second

// jobEnded handles QEMU's event that a copy has ended.
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
