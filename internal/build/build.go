// Package build builds environments from Dockerfiles.
//
// BuildKit's packages parse the Dockerfile. Each step that changes files creates one layer, and
// each stage is a base with layers. COPY and WORKDIR create their layers from trees on the host.
// RUN runs in a machine, which starts with the base of the stage and gets the layers that it lacks.
// The layer of a RUN step contains the files that the step has changed in the machine.
//
// The results of steps are kept in the store of environments. The key of a step is a hash of
// everything on which the step depends: the base, the steps before it, the instruction, the
// arguments and the copied files. So a build starts a machine only if a RUN step has changed. The
// results are the same for all isolation levels.
//
// Dockerfiles, build contexts and machines are not trusted. Paths never leave their tree, and sizes
// and counts are limited.
package build

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/progress"
	"github.com/pyro-mcp/pyro/internal/secret"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/workspace"
)

// Request describes a build. Name, Dockerfile, Context, VCPUs, MemMiB and Isolation are required.
type Request struct {
	Name       string // full name of the environment, see [environment.NewName].
	Dockerfile []byte // the text
	File       string // path of the Dockerfile, for its own ignore file; can be empty
	Context    string // folder that COPY copies from
	Target     string // stage to build; empty: the last one
	Args       map[string]string
	Secrets    map[string]secret.Value // by id
	NoCache    bool                    // run every step again

	Isolation   machine.Isolation // a level that isolates, or machine.Auto
	VCPUs       int
	MemMiB      int
	Network     bool
	Egress      store.Egress
	HostNetwork *store.HostNetwork // can be nil
	Credentials []string           // variables of every RUN, as NAME=VALUE, with credentials of the host's network settings

	Events   func(Event)   // Receives the progress of steps, one event at a time. It can be nil.
	Progress progress.Func // Receives reports about preparations, and about steps if Events is nil. It can be nil.
}

// builder is one build.
type builder struct {
	Request
	manager *workspace.Manager
	driver  machine.Driver
	layers  *environment.Layers
	file    *dockerfile
	global  variables // arguments before the first FROM
	context *source
	stages  []*stage // stages by index; nil if not built yet
	images  map[string]*opened
	step    int // number of the last step
	steps   int // number of all steps
}

// stage is one stage of the Dockerfile.
type stage struct {
	index int
	name  string
	state *state
	guest *guest // nil until a step needs a machine
}

// opened is an image that COPY copies from.
type opened struct {
	ref  *environment.ImageRef
	tree *environment.Tree
}

// Run builds an environment. A failed step is an error of kind Precondition. A Dockerfile with an
// error has kind Invalid, and one that pyro can't build has kind Unsupported. These errors name the
// line. If Run fails, no environment is made or changed, but the results of finished steps are kept
// for the next build.
func Run(ctx context.Context, m *workspace.Manager, req Request) (environment.Environment, error) {
	b := &builder{Request: req, manager: m, images: map[string]*opened{}}
	var err error
	if b.file, err = parse(req.Dockerfile); err != nil {
		return environment.Environment{}, err
	}
	if err := b.chooseDriver(ctx); err != nil {
		return environment.Environment{}, err
	}
	return b.run(ctx)
}

// run builds the environment. It does not need a driver if no step needs a machine.
func (b *builder) run(ctx context.Context) (environment.Environment, error) {
	if err := b.prepare(ctx); err != nil {
		return environment.Environment{}, err
	}
	defer b.layers.Close()
	source, root, err := openContext(b.Request.Context, b.File)
	if err != nil {
		return environment.Environment{}, err
	}
	defer root.Close()
	b.context = source
	defer b.close()
	target, err := b.file.target(b.Target)
	if err != nil {
		return environment.Environment{}, err
	}
	needed := b.file.needed(target)
	if err := b.checkArgs(ctx, needed); err != nil {
		return environment.Environment{}, err
	}
	for i, s := range b.file.stages {
		if needed[i] && i <= target {
			b.steps += 1 + len(s.Commands)
		}
	}
	for i := range b.file.stages[:target+1] {
		if !needed[i] {
			continue
		}
		if _, err := b.builtStage(ctx, i); err != nil {
			return environment.Environment{}, err
		}
	}
	return b.export(ctx, b.stages[target].state)
}

// prepare expands the names of bases, and opens the layers.
func (b *builder) prepare(ctx context.Context) (err error) {
	if b.global, err = b.file.globalScope(b.Args); err != nil {
		return err
	}
	for i := range b.file.stages {
		s := &b.file.stages[i]
		if s.BaseName, err = b.file.word(b.global)(s.BaseName); err != nil {
			return invalidAt(err, s.Location)
		}
		if s.BaseName == "" {
			return invalidAt(fault.Newf(fault.Invalid, "the name after FROM is empty"), s.Location)
		}
	}
	b.stages = make([]*stage, len(b.file.stages))
	b.layers, err = b.manager.Environments.OpenLayers(ctx)
	return err
}

// chooseDriver chooses the driver of the machines.
func (b *builder) chooseDriver(ctx context.Context) error {
	drivers, err := b.manager.Drivers()
	if err != nil {
		return err
	}
	if b.driver, _, err = drivers.Choose(ctx, b.Isolation, false, b.Progress); err != nil {
		return err
	}
	if !b.driver.Features().Isolated {
		return fault.Newf(fault.Unsupported, "a build needs a machine, but isolation is %s", b.driver.Isolation())
	}
	if b.Network {
		return workspace.CheckNetwork(b.driver.Features())
	}
	return nil
}

// close ends all machines and closes all files.
func (b *builder) close() {
	for _, s := range b.stages {
		if s == nil {
			continue
		}
		s.end()
		if s.state != nil {
			s.state.close()
			s.state.base.Close()
		}
	}
	for _, o := range b.images {
		o.tree.Close()
		o.ref.Close()
	}
}

// end ends the machine of a stage.
func (s *stage) end() {
	if s.guest != nil {
		s.guest.Close()
		s.guest = nil
	}
}

// ready returns the machine of a stage, with the files of the stage.
func (b *builder) ready(ctx context.Context, s *stage) (*guest, error) {
	if s.guest == nil {
		var err error
		if s.guest, err = b.startGuest(ctx, s.state); err != nil {
			return nil, err
		}
	}
	return s.guest, b.update(ctx, s.guest, s.state)
}

// builtStage returns a stage. It builds the stage first if nothing has needed it before.
func (b *builder) builtStage(ctx context.Context, i int) (*state, error) {
	if b.stages[i] == nil {
		if err := b.buildStage(ctx, i); err != nil {
			return nil, err
		}
	}
	return b.stages[i].state, nil
}

// buildStage runs all instructions of a stage.
func (b *builder) buildStage(ctx context.Context, i int) error {
	from := b.file.stages[i]
	s := &stage{index: i, name: from.Name}
	if s.name == "" {
		s.name = fmt.Sprintf("stage-%d", i)
	}
	b.stages[i] = s
	report := b.begin(from.SourceCode)
	var err error
	s.state, err = b.from(ctx, i, from)
	if err != nil {
		return report.failed(invalidAt(err, from.Location))
	}
	report.done(false)
	triggers, err := parseTriggers(s.state.config.OnBuild)
	if err != nil {
		return invalidAt(err, from.Location)
	}
	s.state.config.OnBuild = nil
	b.steps += len(triggers)
	for _, c := range append(triggers, from.Commands...) {
		if err := b.instruction(ctx, s, c); err != nil {
			return err
		}
	}
	s.end()
	return nil
}

// instruction runs one instruction and reports it.
func (b *builder) instruction(ctx context.Context, s *stage, c instructions.Command) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	report := b.begin(s.label(fmt.Sprint(c)))
	cached, err := b.do(ctx, s, c, report)
	if err != nil {
		return report.failed(invalidAt(err, c.Location()))
	}
	report.done(cached)
	return nil
}

// label returns the text that shows a step: its stage and the instruction.
func (s *stage) label(text string) string { return "[" + s.name + "] " + text }

// reporter reports one step.
type reporter struct {
	b     *builder
	step  int
	name  string
	began time.Time
	shown bool
}

// begin begins the next step.
func (b *builder) begin(name string) *reporter {
	b.step++
	return &reporter{b: b, step: b.step, name: fmt.Sprintf("[%d/%d] %s", b.step, b.steps, name), began: time.Now()}
}

func (r *reporter) send(status Status, text string) {
	if r.b.Events == nil {
		return
	}
	e := Event{Step: r.step, Status: status, Text: text, Duration: time.Since(r.began)}
	if status == Started || status == Cached {
		e.Name = r.name
	}
	r.b.Events(e)
}

// started reports that the step begins to work. It is idempotent.
func (r *reporter) started() {
	if !r.shown {
		r.shown = true
		r.send(Started, "")
		if r.b.Events == nil {
			r.b.Progress.Phase(r.name, r.b.Name)
		}
	}
}

func (r *reporter) done(cached bool) {
	if cached {
		r.send(Cached, "")
		return
	}
	r.started()
	r.send(Done, "")
}

func (r *reporter) failed(err error) error {
	r.started()
	r.send(Failed, err.Error())
	return err
}

// printer returns a writer for the output of the step.
func (r *reporter) printer() *printer {
	return &printer{report: func(line string) { r.send(Printed, line) }}
}
