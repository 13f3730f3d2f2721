package upkeep

import (
	"context"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/preparation"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Preparation describes a machine to prepare or to look at.
type Preparation struct {
	preparation.Machine
	Force    bool // create all files again, except the environment and the kernel
	TTL      time.Duration
	Progress progress.Func
}

// Status is the state of the files that the next start needs.
type Status = preparation.Status

// The statuses.
const (
	Warm  = preparation.Warm
	Cold  = preparation.Cold
	Stale = preparation.Stale
)

// State is the result of [Look].
type State = preparation.State

// Result is the result of [Prepare].
type Result struct {
	Before, After  State
	Made           bool   // some files were created.
	EmulatedReason string // why the processor is emulated, if it is
	Steps          []machine.Phase
}

// Look returns the state of the files that the next start of a machine needs.
func Look(ctx context.Context, m *workspace.Manager, p Preparation) (State, error) {
	cfg, err := config(m, p)
	if err != nil {
		return State{}, err
	}
	return preparation.Check(ctx, cfg, p.Machine)
}

func config(m *workspace.Manager, p Preparation) (preparation.Config, error) {
	drivers, err := m.Drivers()
	if err != nil {
		return preparation.Config{}, err
	}
	return preparation.Config{Dirs: m.Dirs, Store: m.Environments, Drivers: drivers, Progress: p.Progress}, nil
}

// Prepare creates the files that the next start of a machine needs, unless they exist. To create
// and test the files, it starts a workspace, which it then deletes.
func Prepare(ctx context.Context, m *workspace.Manager, p Preparation) (Result, error) {
	w := &worker{Manager: m, Preparation: p}
	err := w.prepare(ctx)
	return w.result, err
}

// worker is one call of Prepare.
type worker struct {
	*workspace.Manager
	Preparation
	result Result
}

func (w *worker) prepare(ctx context.Context) (err error) {
	if w.result.Before, err = Look(ctx, w.Manager, w.Preparation); err != nil {
		return err
	}
	w.result.After = w.result.Before
	if w.result.Before.Status != Warm || w.Force {
		w.result.Made = true
		if err := w.make(ctx); err != nil {
			return err
		}
	}
	return preparation.Remember(w.Dirs, w.result.After)
}

// make creates the files by starting a machine.
func (w *worker) make(ctx context.Context) error {
	if w.Force {
		err := w.step("forget", func() error {
			cfg, err := config(w.Manager, w.Preparation)
			if err != nil {
				return err
			}
			return preparation.Forget(ctx, cfg, w.Preparation.Machine)
		})
		if err != nil {
			return err
		}
	}
	err := w.step("environment", func() error {
		reference, err := w.Environments.Use(ctx, w.Environment, w.Progress)
		if err != nil {
			return err
		}
		return reference.Close()
	})
	if err != nil {
		return err
	}
	given, err := w.prove(ctx)
	if err != nil {
		return err
	}
	proved := w.Preparation
	proved.Isolation = given
	if w.result.After, err = Look(ctx, w.Manager, proved); err != nil {
		return err
	}
	if after := w.result.After; after.Status != Warm {
		return fault.Newf(fault.Unavailable, "it was prepared, but has changed since: %s", after.Reason).WithHint("pyro prepare %s", w.Environment)
	}
	return nil
}

// deletePatience limits the time to delete the workspace. The deletion happens even if ctx has
// ended.
const deletePatience = 30 * time.Second

// prove creates a workspace, runs a command in it, resets it and deletes it. It returns the
// isolation of the workspace.
func (w *worker) prove(ctx context.Context) (given machine.Isolation, err error) {
	policy := store.NetworkOff
	if w.Network {
		policy = store.NetworkEgress
	}
	var made workspace.Workspace
	err = w.step("create", func() (err error) {
		made, err = w.Create(ctx, workspace.Spec{
			Kind: store.KindWorkspace, Environment: w.Environment, Isolation: w.Isolation, VCPUCount: w.VCPUs, MemMiB: w.MemMiB,
			DiskMiB: store.DefaultDiskMiB, TTLSeconds: int(w.TTL.Seconds()), Network: policy, Name: "pyro-prepare", Progress: w.Progress,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	w.result.EmulatedReason = made.Spec.Reason
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deletePatience)
		defer cancel()
		deleted := w.step("delete", func() error { return w.Delete(ctx, store.KindWorkspace, made.ID) })
		if err == nil {
			err = deleted
		}
	}()
	if err := w.step("exec", func() error { return w.checkLinks(ctx, made.ID) }); err != nil {
		return "", err
	}
	return machine.Isolation(made.Spec.Isolation), w.step("reset", func() error {
		_, err := w.Reset(ctx, made.ID, "", w.Progress)
		return err
	})
}

// maxLinks limits the output of the command that lists the network links of a machine, in bytes.
const maxLinks = 64 << 10

// linksTimeout limits the run time of the command that lists the network links.
const linksTimeout = 30 * time.Second

// checkLinks checks that a machine has a network link if, and only if, it should have one. If the
// image does not contain the program cat, it is enough that the machine has started.
func (w *worker) checkLinks(ctx context.Context, id string) error {
	stdout, stderr := program.Bounded{Budget: program.NewBudget(maxLinks)}, program.HeadTail{}
	exit, _, err := w.Exec(ctx, store.KindWorkspace, id, program.Command{Argv: []string{"cat", "/proc/net/dev"}, Timeout: linksTimeout},
		program.Attach{Stdout: &stdout, Stderr: &stderr}, nil)
	links := string(stdout.Bytes())
	switch {
	case err != nil:
		return err
	case exit.NotRun != "":
		return nil
	case exit.Code != 0:
		return fault.Newf(fault.Unavailable, "a command in its machine ended with exit code %d: %s", exit.Code, strings.TrimSpace(string(stderr.Bytes())))
	case strings.Contains(links, "eth0:") != w.Network:
		return fault.Newf(fault.Internal, "its machine should have a network: %t, but has the links %s", w.Network, links)
	}
	return nil
}

// step calls the function do as one step of the preparation, and measures its time.
func (w *worker) step(name string, do func() error) error {
	began := time.Now()
	err := do()
	w.result.Steps = append(w.result.Steps, machine.Phase{Name: name, Duration: time.Since(began)})
	return err
}
