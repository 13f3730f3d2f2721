package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor/protocol"
	"github.com/pyro-mcp/pyro/internal/machine/record"
)

// savedForm names the format of saved machines. Change it if Save writes another format.
const savedForm = "gvisor-saved-1"

// description is the record of a saved machine.
type description struct {
	Helper string        `json:"helper"` // identity of the helper that saved the machine
	Agent  string        `json:"agent"`
	Images string        `json:"images"` // forms of the images
	Shape  savedShape    `json:"shape"`
	Files  []record.Sums `json:"files"` // checksums in the order of savedFiles
}

// savedShape contains the properties that must be the same when the machine is resumed.
type savedShape struct {
	Root    string `json:"root"`
	VCPUs   int    `json:"vcpus"`
	MemMiB  int    `json:"mem_mib"`
	Network bool   `json:"network"`
	Storage bool   `json:"storage"`
}

func (s savedShape) memory() int64 { return int64(s.MemMiB) << 20 }

// describe returns the description that Save records.
func (d *Driver) describe(h Helper, spec machine.Spec) description {
	return description{
		Helper: h.ID, Agent: d.cfg.Guest.Digest(), Images: environmentForm + " " + agentForm,
		Shape: savedShape{Root: spec.Root.Digest, VCPUs: spec.VCPUs, MemMiB: spec.MemMiB, Network: spec.Network != nil, Storage: spec.Storage != nil},
	}
}

// fits returns an error that names the first difference between the saved machine and the new one.
func (was description) fits(now description) error {
	switch {
	case was.Shape.Root != now.Shape.Root:
		return record.Differs("the environment", was.Shape.Root, now.Shape.Root)
	case was.Shape.VCPUs != now.Shape.VCPUs:
		return record.Differs("the number of processors", was.Shape.VCPUs, now.Shape.VCPUs)
	case was.Shape.MemMiB != now.Shape.MemMiB:
		return record.Differs("the memory in MiB", was.Shape.MemMiB, now.Shape.MemMiB)
	case was.Shape.Network != now.Shape.Network:
		return record.Differs("the network link", was.Shape.Network, now.Shape.Network)
	case was.Shape.Storage != now.Shape.Storage:
		return record.Differs("the storage", was.Shape.Storage, now.Shape.Storage)
	case was.Helper != now.Helper:
		return record.Differs(HelperName, was.Helper, now.Helper)
	case was.Agent != now.Agent || was.Images != now.Images:
		return record.Differs("pyro", was.Agent+" "+was.Images, now.Agent+" "+now.Images)
	}
	return nil
}

// source is a saved machine whose files are open.
type source struct {
	dir string
	description
	files []*os.File
}

// openSaved opens a saved machine. It fails if the new machine differs from the saved one.
func openSaved(dir string, now description) (_ *source, err error) {
	s := &source{dir: dir}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := record.Read(dir, savedForm, &s.description); err != nil {
		return nil, err
	}
	if err := s.fits(now); err != nil {
		return nil, err
	}
	if len(s.Files) != len(savedFiles) {
		return nil, fault.Newf(fault.Corrupt, "%s does not describe its files", record.Name)
	}
	for _, name := range savedFiles {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, record.Missing(err)
		}
		s.files = append(s.files, f)
	}
	return s, nil
}

func (s *source) close() {
	for _, f := range s.files {
		f.Close()
	}
}

// check verifies the checksums of all files. The error names the first damaged file.
func (s *source) check(ctx context.Context) error {
	for i, sums := range s.Files {
		if err := sums.Check(ctx, savedFiles[i], s.files[i]); err != nil {
			return err
		}
	}
	return nil
}

// awaitRestore waits until the machine is restored and its agent runs. The sentry reads the files
// while pyro checks them. The machine starts to run only after the check has succeeded.
func (s *sandbox) awaitRestore(ctx context.Context, from *source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	checked := make(chan error, 1)
	go func() {
		err := from.check(ctx)
		if err == nil {
			s.control.send(protocol.Command{Do: "go"}) // an error means that the sentry has ended
		} else {
			cancel(err)
		}
		checked <- err
	}()
	started := s.started(ctx)
	damaged := <-checked
	switch {
	case started == nil:
		return nil
	case damaged != nil:
		return damaged
	}
	var refused *fault.Error
	var r *refusal
	// The saved files are intact, but the sentry can't restore them on this host.
	if errors.As(started, &refused) && errors.As(started, &r) {
		refused.Kind = fault.Precondition
	}
	return started
}
