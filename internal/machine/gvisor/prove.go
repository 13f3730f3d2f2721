package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
	"github.com/pyro-mcp/pyro/internal/progress"
)

// proveTimeout is the maximum duration of one try. A try usually takes a tenth of a second.
const proveTimeout = 30 * time.Second

// Prove starts a sandbox and waits for its agent. It records a success for this combination of
// helper, agent, kernel and user. It does not record a failure, because a try is fast and the cause
// might be gone later.
func (d *Driver) Prove(ctx context.Context, report progress.Func) error {
	return fault.Wrap(d.prove(ctx, report), "prove isolation", string(machine.GVisor))
}

func (d *Driver) prove(ctx context.Context, report progress.Func) error {
	h, err := FindHelper(d.cfg.Program)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	proof := d.proof(h)
	if d.proved = d.proved || exists(proof); d.proved {
		return nil
	}
	if err := d.try(ctx, h, report); err != nil {
		return err
	}
	d.proved = true
	// If the cache is read-only, the success is not recorded, and the next pyro process tries
	// again.
	if os.MkdirAll(filepath.Dir(proof), 0o700) == nil {
		os.WriteFile(proof, nil, 0o600)
	}
	return nil
}

// proof is the path of the file that records a success.
func (d *Driver) proof(h Helper) string {
	var kernel unix.Utsname
	unix.Uname(&kernel)
	sum := sha256.New()
	for _, part := range []string{
		h.ID, d.cfg.Guest.Digest(), unix.ByteSliceToString(kernel.Release[:]), unix.ByteSliceToString(kernel.Version[:]), strconv.Itoa(os.Geteuid()),
	} {
		sum.Write([]byte(part + "\x00"))
	}
	return filepath.Join(d.cfg.Dirs.Cache, "proofs", "gvisor-"+hex.EncodeToString(sum.Sum(nil)[:16]))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// try starts a sandbox that contains only the agent, and renews the agent's identity.
func (d *Driver) try(ctx context.Context, h Helper, report progress.Func) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proveTimeout, errors.New("the sandbox was not ready in time"))
	defer cancel()
	agent, err := d.agentImage(ctx, report)
	if err != nil {
		return err
	}
	defer agent.Close()
	// The folder is among the folders of machines and has the same kind of lock. So after a crash
	// the sweep of machines removes it too.
	if err := os.MkdirAll(d.cfg.Dirs.Machines(), 0o700); err != nil {
		return err
	}
	staged, err := os.MkdirTemp(d.cfg.Dirs.Machines(), ".new-proof-")
	if err != nil {
		return err
	}
	dir := filepath.Join(d.cfg.Dirs.Machines(), strings.TrimPrefix(filepath.Base(staged), ".new-"))
	lock, err := flock.TryFolder(staged, flock.Exclusive)
	if err == nil {
		err = os.Rename(staged, dir)
	}
	if err != nil {
		lock.Release()
		os.Remove(staged)
		return err
	}
	defer lock.Release()
	defer os.RemoveAll(dir)
	id := "proof-" + strconv.Itoa(os.Getpid())
	s, err := d.launch(h, &images{agent, &template.Template{Dir: agent.Dir}}, machine.Spec{ID: id, Dir: dir, VCPUs: 1, MemMiB: 128}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.started(ctx); err != nil {
		return s.closeAfter(err)
	}
	c, err := client.Dial(ctx, s.link)
	if err == nil {
		defer c.Close()
		err = c.Renew(ctx, client.NewIdentity(id))
	}
	if err != nil {
		return s.closeAfter(err)
	}
	return nil
}
