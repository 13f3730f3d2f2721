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

// Status is the result of a check.
type Status string

// The possible results.
const (
	OK   Status = "ok"
	Warn Status = "warn" // this might be intended, or it could not be checked
	Fail Status = "fail" // the host can't use the server
)

// Report contains the state of all hosts and their pyro servers.
type Report struct {
	OK    bool    `json:"ok"` // true if no server failed
	Hosts []State `json:"hosts"`
}

// State describes a host and its pyro servers.
type State struct {
	Name       string    `json:"name"`
	Title      string    `json:"title"`
	Installed  bool      `json:"installed"`
	Program    string    `json:"program,omitempty"` // path of the program
	Version    string    `json:"version,omitempty"` // as printed by the program
	Configured bool      `json:"configured"`        // the host has a pyro server
	Servers    []Finding `json:"servers"`
	Problems   []string  `json:"problems"`       // errors in the host's configuration files
	Hint       string    `json:"hint,omitempty"` // the command that connects the host
}

// Finding describes a server of a host. The server starts pyro, or has the name of pyro's server.
type Finding struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`
	Scope   string   `json:"scope"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Profile string   `json:"profile,omitempty"`
	Status  Status   `json:"status"`
	Detail  string   `json:"detail"`
	Version string   `json:"version,omitempty"` // reported by the server
	Tools   int      `json:"tools"`             // number of tools; 0 if the server did not answer or was not started
	Hint    string   `json:"hint,omitempty"`
}

// Examination contains the parameters of a check of all hosts.
type Examination struct {
	Home    Home
	Name    string                                          // name of pyro's server
	Self    string                                          // path of this program
	Accepts func(args []string) (profile string, err error) // parses the arguments of this program
}

// Run checks all hosts. The report contains the problems. Run returns an error only if ctx is done.
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
	s.Problems = slices.Compact(s.Problems) // two scopes can use the same file
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

// server checks one server. It starts the server, unless starting it is unsafe.
func (x Examination) server(ctx context.Context, h Host, file File, e entry) (f Finding) {
	f = Finding{Name: e.Name, File: file.Path, Scope: file.Scope, Command: fault.Printable(e.Command), Args: []string{}, Status: OK}
	for _, a := range e.Args {
		f.Args = append(f.Args, fault.Printable(a))
	}
	var details []string
	add := func(s Status, detail string) {
		if details = append(details, detail); s == Fail || f.Status == OK {
			f.Status = s
		}
	}
	defer func() {
		f.Detail = strings.Join(details, "; ")
		if f.Status != OK {
			f.Hint = h.repairCommand(f)
		}
	}()
	if e.Remote {
		add(Warn, "it uses a URL, which was not checked")
		return f
	}
	if e.Disabled {
		add(Warn, "it is disabled")
	}
	program, err := exec.LookPath(e.Command)
	if err != nil {
		add(Fail, "program not found: "+Quote(e.Command))
		return f
	}
	self := same(program, x.Self)
	if !self {
		add(Warn, "it is not this pyro, which is "+x.Self)
	}
	if profile, err := x.Accepts(e.Args); err == nil {
		f.Profile = profile
	} else if self {
		add(Fail, "invalid arguments: "+shortened(err))
		return f
	}
	asked := e.Server
	if file.Scope == ScopeProject { // the project's author wrote the file, so the file must not choose the program that is started
		if !self {
			add(Warn, "it was not started, because it is configured by the project")
			return f
		}
		asked.Env = nil
	}
	a, err := ask(ctx, program, asked, x.Home.Work)
	if err != nil {
		add(Fail, shortened(err))
		return f
	}
	f.Version, f.Tools = fault.Printable(a.version), a.tools
	if a.name != "pyro" {
		add(Warn, "its name is "+Quote(a.name))
	}
	return f
}

// repairCommand returns the command that a user can run to repair a server.
func (h Host) repairCommand(f Finding) string {
	flags := ""
	if f.Name != DefaultName {
		flags += " --name " + Quote(f.Name)
	}
	if f.Profile != "" && f.Profile != DefaultProfile {
		flags += " --profile " + Quote(f.Profile)
	}
	switch {
	case f.Scope == ScopeLocal && h.remove != nil: // a local server overrides the user's server, so it is removed
		return Server{Command: h.Program, Args: h.remove(f.Name, f.Scope)}.String()
	case !slices.Contains(h.scopes, f.Scope):
		return "pyro host print-config " + h.Name + flags
	case f.Scope != h.scopes[0]:
		flags += " --scope " + f.Scope
	}
	return "pyro host repair " + h.Name + flags
}

// same reports whether two paths refer to the same file.
func same(program, self string) bool {
	a, err := os.Stat(program)
	if err != nil {
		return false
	}
	b, err := os.Stat(self)
	return err == nil && os.SameFile(a, b)
}

// CurrentHome returns the locations of the current user's configuration files.
func CurrentHome(project string) (Home, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Home{}, fault.Newf(fault.Precondition, "no home folder: set HOME")
	}
	work, err := os.Getwd()
	if err != nil {
		return Home{}, fault.Wrap(err, "find the working directory", "")
	}
	h := Home{Folder: home, Work: work, Project: project, Getenv: os.Getenv}
	if h.Config = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(h.Config) {
		h.Config = filepath.Join(home, ".config")
	}
	return h, nil
}
