package agenthost

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// Status is how a server is configured.
type Status string

// The outcomes.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it may be meant so, or could not be tried
	Fail Status = "fail" // the host can't use it
)

// Report tells which hosts there are, and what they have of pyro.
type Report struct {
	OK    bool    `json:"ok"` // no server that a host has is broken
	Hosts []State `json:"hosts"`
}

// State is what there is of one host.
type State struct {
	Name       string    `json:"name"`
	Title      string    `json:"title"`
	Installed  bool      `json:"installed"`
	Program    string    `json:"program,omitempty"` // the path of its program
	Version    string    `json:"version,omitempty"` // as its program tells it
	Configured bool      `json:"configured"`        // it has pyro
	Servers    []Finding `json:"servers"`
	Problems   []string  `json:"problems"`       // of its files, which could not be read
	Hint       string    `json:"hint,omitempty"` // a command that connects it
}

// Finding is one server of a host that is pyro, or has its name.
type Finding struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`
	Scope   string   `json:"scope"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Profile string   `json:"profile,omitempty"`
	Status  Status   `json:"status"`
	Detail  string   `json:"detail"`
	Version string   `json:"version,omitempty"` // of the server that answered
	Tools   int      `json:"tools"`             // that it has; 0 where it did not answer, or was not asked
	Hint    string   `json:"hint,omitempty"`
}

// Examination says what to look at.
type Examination struct {
	Home    Home
	Name    string                                          // that pyro goes by with the hosts
	Self    string                                          // the path of this pyro
	Accepts func(args []string) (profile string, err error) // what arguments of this pyro's mean, where it takes them
}

// Run looks at all hosts. What is wrong with them is in the report; the error is that of ctx.
func (x Examination) Run(ctx context.Context) (*Report, error) {
	report := &Report{OK: true, Hosts: make([]State, len(Hosts))}
	var looking sync.WaitGroup
	for i, h := range Hosts {
		looking.Go(func() { report.Hosts[i] = x.host(ctx, h) })
	}
	looking.Wait()
	for _, h := range report.Hosts {
		for _, s := range h.Servers {
			report.OK = report.OK && s.Status != Fail
		}
	}
	return report, ctx.Err()
}

func (x Examination) host(ctx context.Context, h Host) State {
	s := State{Name: h.Name, Title: h.Title, Servers: []Finding{}, Problems: []string{}}
	if program, err := exec.LookPath(h.Program); err == nil {
		s.Installed, s.Program = true, program
		if h.version != nil {
			s.Version = versionOf(ctx, program, h.version)
		}
	}
	for _, file := range h.files(x.Home) {
		found, err := h.form.entries(file, x.Name)
		if err != nil {
			s.Problems = append(s.Problems, err.Error())
		}
		for _, e := range found {
			s.Servers = append(s.Servers, x.server(ctx, h, file, e))
		}
	}
	s.Problems = slices.Compact(s.Problems) // two scopes may be one file
	s.Configured = len(s.Servers) > 0
	switch {
	case s.Configured || !s.Installed:
	case h.Connectable():
		s.Hint = "pyro host connect " + h.Name
	case h.Repairable():
		s.Hint = "pyro host repair " + h.Name
	default:
		s.Hint = "pyro host print-config " + h.Name
	}
	return s
}

// server looks at one server, and asks it.
func (x Examination) server(ctx context.Context, h Host, file File, e entry) (f Finding) {
	f = Finding{Name: e.Name, File: file.Path, Scope: file.Scope, Command: fault.Printable(e.Command), Args: []string{}, Status: OK}
	for _, a := range e.Args {
		f.Args = append(f.Args, fault.Printable(a))
	}
	var details []string
	tell := func(s Status, detail string) {
		if details = append(details, detail); s == Fail || f.Status == OK {
			f.Status = s
		}
	}
	defer func() {
		f.Detail = strings.Join(details, "; ")
		if f.Status != OK {
			f.Hint = h.mends(f)
		}
	}()
	if e.Remote {
		tell(Warn, "it is reached at a URL, which was not tried")
		return f
	}
	if e.Off {
		tell(Warn, "it is switched off")
	}
	program, err := exec.LookPath(e.Command)
	if err != nil {
		tell(Fail, "there is no program "+Quote(e.Command))
		return f
	}
	self := same(program, x.Self)
	if !self {
		tell(Warn, "it is not this pyro, which is "+x.Self)
	}
	if profile, err := x.Accepts(e.Args); err == nil {
		f.Profile = profile
	} else if self {
		tell(Fail, "pyro does not take its arguments: "+shortened(err))
		return f
	}
	asked := e.Server
	if file.Scope == ScopeProject { // whoever wrote the project wrote it: it must not choose what runs here
		if !self {
			tell(Warn, "it was not started, since a project's file names it")
			return f
		}
		asked.Env = nil
	}
	a, err := ask(ctx, program, asked, x.Home.Work)
	if err != nil {
		tell(Fail, shortened(err))
		return f
	}
	f.Version, f.Tools = fault.Printable(a.version), a.tools
	if a.name != "pyro" {
		tell(Warn, "it calls itself "+Quote(a.name))
	}
	return f
}

// mends is what puts a server right.
func (h Host) mends(f Finding) string {
	flags := ""
	if f.Name != DefaultName {
		flags += " --name " + Quote(f.Name)
	}
	if f.Profile != "" && f.Profile != DefaultProfile {
		flags += " --profile " + Quote(f.Profile)
	}
	switch {
	case f.Scope == ScopeLocal && h.remove != nil: // which is over that of the user, and of no use beside it
		return Server{Command: h.Program, Args: h.remove(f.Name, f.Scope)}.String()
	case !slices.Contains(h.scopes, f.Scope):
		return "pyro host print-config " + h.Name + flags
	case f.Scope != h.scopes[0]:
		flags += " --scope " + f.Scope
	}
	return "pyro host repair " + h.Name + flags
}

// same tells that two paths are one program.
func same(program, self string) bool {
	a, err := os.Stat(program)
	if err != nil {
		return false
	}
	b, err := os.Stat(self)
	return err == nil && os.SameFile(a, b)
}

// Here is where the hosts of the present user keep things.
func Here(project string) (Home, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Home{}, fault.Newf(fault.Precondition, "no home folder: set HOME")
	}
	work, err := os.Getwd()
	if err != nil {
		return Home{}, fault.Wrap(err, "find the present folder", "")
	}
	h := Home{Folder: home, Work: work, Project: project, Getenv: os.Getenv}
	if h.Config = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(h.Config) {
		h.Config = filepath.Join(home, ".config")
	}
	return h, nil
}
