package gvisor

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/template"
)

// Ready looks for the images of a machine, and for a recorded success of Prove on this host.
func (d *Driver) Ready(_ context.Context, spec machine.Spec) (machine.Readiness, error) {
	h, err := FindHelper(d.cfg.Program)
	if err != nil {
		return machine.Readiness{}, err
	}
	var kernel unix.Utsname
	unix.Uname(&kernel)
	r := machine.Readiness{Parts: map[string]string{
		machine.PartEnvironment: spec.Root.Digest, machine.PartAgent: d.cfg.Guest.Digest(), HelperName: h.ID,
		"the host's kernel": unix.ByteSliceToString(kernel.Release[:]) + " " + unix.ByteSliceToString(kernel.Version[:]), "the user": strconv.Itoa(os.Geteuid()),
		"the form of images": environmentForm + " " + agentForm,
	}}
	for _, image := range []struct {
		of  string
		key template.Key
	}{{"the environment", environmentKey(spec)}, {"the agent", d.agentKey()}} {
		t, err := d.templates.Open(image.key)
		switch fault.KindOf(err) {
		case "":
			t.Close()
		case fault.NotFound:
			r.Missing = "there is no image of " + image.of + " for gVisor"
			return r, nil
		case fault.Corrupt:
			r.Missing, r.Damaged = "the image of "+image.of+" for gVisor is damaged", true
			return r, nil
		default:
			return r, err
		}
	}
	if !exists(d.proof(h)) {
		r.Missing = "gVisor has not been tested on this host"
	}
	return r, nil
}

// invalidateTimeout is how long Invalidate waits for starts that are opening the images.
const invalidateTimeout = 10 * time.Second

// Invalidate removes the images for such a machine. Running machines keep the files open.
func (d *Driver) Invalidate(ctx context.Context, spec machine.Spec) error {
	ctx, cancel := context.WithTimeoutCause(ctx, invalidateTimeout, errors.New("it was in use all the time"))
	defer cancel()
	return errors.Join(d.templates.Retire(ctx, environmentKey(spec)), d.templates.Retire(ctx, d.agentKey()))
}
