// Command bench measures pyro. It compares each figure with its floor from the same run. The floor
// is the minimum that the host, the emulator and the guest need for the same work. bench prints a
// table. With -json it also writes the figures to a file. With -curves it draws the section trees.
//
//	make bench
//	go run ./bench -only exec,files -n 20 -json figures.json
//	go run ./bench -only pty    needs no machine, but the programs of make build
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pyro-mcp/pyro"
	"github.com/pyro-mcp/pyro/bench/floor"
	"github.com/pyro-mcp/pyro/internal/dirs"
	"github.com/pyro-mcp/pyro/internal/environment"
	"github.com/pyro-mcp/pyro/internal/guest"
	"github.com/pyro-mcp/pyro/internal/machine"
	"github.com/pyro-mcp/pyro/internal/machine/gvisor"
	"github.com/pyro-mcp/pyro/internal/machine/qemu"
	"github.com/pyro-mcp/pyro/internal/machine/template"
)

const (
	environmentName = "debian:12"
	vcpus, memMiB   = 1, 1024
)

// bench is the state that all measurements share.
type bench struct {
	ctx       context.Context
	n         int
	dir       string // folder for programs and temporary files
	dirs      dirs.Dirs
	store     *environment.Store
	guest     *guest.Program
	driver    machine.Driver // QEMU with the host's best accelerator
	sandbox   machine.Driver // gVisor
	image     string
	root      machine.Root
	template  floor.Template
	sdk       *pyro.Pyro
	isolation pyro.Isolation // isolation level of driver
	apart     bool           // this process has its own network namespace
	figures   []Figure
	growths   []growth
}

// section is a group of measurements that can be selected.
type section struct {
	name     string
	machines bool // the section needs an environment and machines
	run      func(*bench) error
}

const machines = true

// sections lists the groups of measurements in order.
var sections = []section{
	{"start", machines, (*bench).start},
	{"boot", machines, (*bench).boot},
	{"exec", machines, (*bench).exec},
	{"link", machines, (*bench).link},
	{"files", machines, (*bench).files},
	{"together", machines, (*bench).concurrentStarts},
	{"memory", machines, (*bench).memory},
	{"first", machines, (*bench).first},
	{"gvisor", machines, (*bench).gvisor},
	{"saved", machines, (*bench).saved},
	{"workspace", machines, (*bench).workspace},
	{"trees", machines, (*bench).trees},
	{"fork", machines, (*bench).fork},
	{"host", machines, (*bench).host},
	{"serve", machines, (*bench).serve},
	{"records", !machines, (*bench).records},
	{"shell", machines, (*bench).shell},
	{"network", machines, (*bench).network},
	{"mcp", machines, (*bench).mcp},
	{"pty", !machines, (*bench).pty},
}

func main() {
	n := flag.Int("n", 10, "how often each is measured")
	only := flag.String("only", "", "sections to measure, separated by commas: start, boot, exec, link, files, together, memory, first, gvisor, saved, workspace, trees, fork, host, serve, records, shell, network, mcp, pty")
	apart := flag.Bool("apart", false, "this process has a network of its own")
	child := flag.Bool("child", false, "move a large file and print this process's peak memory")
	peak := flag.String("peak", "", "run the program that follows, its output to this file, and print its peak memory")
	curves := flag.String("curves", "", "draw the growth of the section trees to this SVG file")
	out := flag.String("json", "", "write the figures to this file as well")
	flag.Parse()
	log.SetFlags(0)
	if *peak != "" {
		if err := printPeak(*peak, flag.Args()); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen := slices.DeleteFunc(slices.Clone(sections), func(s section) bool { return *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) })
	b, err := prepare(ctx, *n, *child || slices.ContainsFunc(chosen, func(s section) bool { return s.machines }))
	if err == nil && *child {
		err = moveBigFile(b)
	}
	if err != nil {
		log.Fatal(err)
	}
	if *child {
		return
	}
	b.apart = *apart
	defer func() { os.RemoveAll(b.dir) }() // the method build creates this folder
	if err := b.build(); err != nil {
		log.Fatal(err)
	}
	for _, s := range chosen {
		fmt.Fprintln(os.Stderr, "measuring", s.name)
		if err := s.run(b); err != nil {
			os.RemoveAll(b.dir)
			log.Fatalf("%s: %v", s.name, err)
		}
	}
	print(os.Stdout, b.figures)
	if *curves != "" {
		if err := drawCurves(*curves, b.growths); err != nil {
			log.Fatal(err)
		}
	}
	if *out != "" {
		text, err := json.MarshalIndent(b.figures, "", "  ")
		if err == nil {
			err = os.WriteFile(*out, append(text, '\n'), 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// prepare prepares a bench. If machines are measured, it also builds the environment and its
// template.
func prepare(ctx context.Context, n int, machines bool) (*bench, error) {
	b := &bench{ctx: ctx, n: n}
	// The built programs are measured, even for machines that this process starts.
	helper, err := filepath.Abs("bin/" + gvisor.HelperName)
	if err != nil {
		return nil, err
	}
	os.Setenv("PYRO_RUNSC", helper)
	if b.dirs, err = dirs.Default(); err != nil || !machines {
		return b, err
	}
	if b.guest, err = guest.Find(); err != nil {
		return nil, err
	}
	if b.sdk, err = pyro.New(pyro.Options{}); err != nil {
		return nil, err
	}
	for _, b.isolation = range []pyro.Isolation{pyro.IsolationKVM, pyro.IsolationTCG} {
		if _, err = b.sdk.RunInVM(ctx, pyro.RunInVMRequest{Environment: environmentName, Argv: []string{"true"}, Isolation: b.isolation}); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b.store = environment.Open(b.dirs)
	image, err := b.store.Use(ctx, environmentName, nil)
	if err != nil {
		return nil, err
	}
	image.Close()
	b.image, b.root = image.Image, machine.Root{Digest: image.Environment.Digest, Image: image.Image}
	b.driver = qemu.New(qemu.Config{Isolation: machine.Isolation(b.isolation), Dirs: b.dirs, Store: b.store, Guest: b.guest})
	b.sandbox = gvisor.New(gvisor.Config{Dirs: b.dirs, Guest: b.guest})
	b.template, err = b.findTemplate(false)
	return b, err
}

// build builds the helper programs of the measurements.
func (b *bench) build() (err error) {
	if b.dir, err = os.MkdirTemp("", "pyro-bench-"); err != nil {
		return err
	}
	for _, program := range []string{"floorrun", "rawguest", "spawn", "traffic"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(b.dir, program), "./bench/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// findTemplate returns the most recently used template of the measured machine, with or without a
// network.
func (b *bench) findTemplate(network bool) (found floor.Template, err error) {
	store := template.Store{Dir: b.dirs.Templates()}
	infos, err := store.List()
	if err != nil {
		return found, err
	}
	var newest time.Time
	for _, info := range infos {
		dir := filepath.Join(store.Dir, info.Name)
		t, err := floor.Read(dir)
		st, serr := os.Stat(filepath.Join(dir, "ram"))
		if err != nil || serr != nil || info.Key.Root != b.root.Digest || t.MemMB != fmt.Sprintf("%dM", memMiB) || t.Network != network {
			continue
		}
		if st.ModTime().After(newest) {
			newest, found = st.ModTime(), t
		}
	}
	if found.Dir == "" {
		return found, fmt.Errorf("no template of %s was found", environmentName)
	}
	return found, nil
}

// program returns the path of a helper program that build built.
func (b *bench) program(name string) string { return filepath.Join(b.dir, name) }

// times runs functions alternately and measures the time of each run in ms, so that a drift of the
// host's speed affects all functions.
func (b *bench) times(n int, both ...func() error) ([][]float64, error) {
	results := make([][]float64, len(both))
	for i := range n + 1 {
		for j, f := range both {
			began := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if i > 0 { // the first round is a warm-up
				results[j] = append(results[j], float64(time.Since(began).Microseconds())/1000)
			}
		}
	}
	return results, nil
}
