package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/terminal"
	"github.com/pyro-mcp/pyro/internal/transcript"
)

// standing is what a supervisor knows of what runs in a machine that was saved. The one that has the machine go on needs it, perhaps of another workspace: it is in
// files beside what the machine was saved as.
type standing struct {
	Workspace string            `json:"workspace"` // that of the machine that was saved
	Shells    []standingShell   `json:"shells,omitempty"`
	Services  []standingService `json:"services,omitempty"`
	Commands  []standingCommand `json:"commands,omitempty"`

	Connections []network.Connection `json:"connections,omitempty"` // of the machine, which end with its network

	Sums map[string]uint32 `json:"sums,omitempty"` // of the files beside it, by name
}

type standingShell struct {
	ID       string            `json:"id"`
	ExecID   string            `json:"exec_id"`
	Tag      string            `json:"tag,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Argv     []string          `json:"argv,omitempty"`
	Cwd      string            `json:"cwd"`
	Opened   time.Time         `json:"opened"`
	Cols     uint32            `json:"cols"`
	Rows     uint32            `json:"rows"`
	Switches terminal.Switches `json:"switches"`
	Out      point             `json:"out"`
	Kept     int64             `json:"kept"`           // the offset of what is kept of its output, which is in a file
	Errs     *point            `json:"errs,omitempty"` // of a program in the background: its standard error
	KeptErrs int64             `json:"kept_errs,omitempty"`
	Read     int64             `json:"read,omitempty"`  // of its output, by whom that is for
	Taken    uint64            `json:"taken,omitempty"` // of its input
	Typed    []byte            `json:"typed,omitempty"` // after that
	Ended    time.Time         `json:"ended,omitzero"`
	Exit     client.Exit       `json:"exit,omitzero"`
	Broken   string            `json:"broken,omitempty"`
}

type standingService struct {
	ExecID string        `json:"exec_id"`
	Record store.Service `json:"record"`
	Out    point         `json:"out"`
	Errs   point         `json:"errs"`
	Gone   [2]int64      `json:"gone"` // bytes that are not kept any more of its logs, which are in files for other workspaces
}

type standingCommand struct {
	ID      string        `json:"id"`
	Command store.Command `json:"command"`
	Out     point         `json:"out"`
	Errs    point         `json:"errs"`
	Stdout  standingText  `json:"stdout"`
	Stderr  standingText  `json:"stderr"`
}

// standingText is an excerpt.
type standingText struct {
	Head  []byte `json:"head,omitempty"`
	Tail  []byte `json:"tail,omitempty"`
	Total int64  `json:"total"`
}

const (
	standingName = "standing.json"
	maxStanding  = 256 << 20 // bytes of it: shells that nobody reads may have much in their way
	maxKept      = 16 << 20  // bytes of a file beside it
)

func shellFile(dir, id string) string   { return filepath.Join(dir, "shell-"+id) }
func shellErrors(dir, id string) string { return shellFile(dir, id) + ".2" }

func serviceFile(dir, name string, stream int) string {
	return filepath.Join(dir, fmt.Sprintf("service-%s.%d", name, stream+1))
}

// stand finds out how all that runs stands, and keeps it there until the outlets are released. Other workspaces may go on from it, too.
//
// had are the connections that the machine had before it stood still. Of one that was reset since the machine knows nothing.
func (d *daemon) stand(dir string, had []network.Connection) (held []*outlet, err error) {
	hold := func(o *outlet) point {
		held = append(held, o)
		return o.hold()
	}
	s := standing{Workspace: d.order.Workspace.ID, Sums: map[string]uint32{}}
	for _, one := range d.shells.list() {
		state := one.standing(hold)
		from, kept := one.log.Kept()
		state.Kept = from
		err := s.keep(shellFile(dir, one.id), kept)
		if err == nil && one.inBackground() {
			state.KeptErrs, kept = one.errs.Kept()
			err = s.keep(shellErrors(dir, one.id), kept)
		}
		if err != nil {
			return held, err
		}
		s.Shells = append(s.Shells, state)
	}
	for _, v := range d.services.list() {
		state, ok := v.standing(hold)
		if !ok {
			continue // it is about to be started
		}
		for i, path := range d.folder.Service(state.Record.Name).Logs() {
			kept, gone, err := transcript.ReadFile(path)
			if err == nil {
				err = s.keep(serviceFile(dir, state.Record.Name, i), kept)
			}
			if err != nil {
				return held, err
			}
			state.Gone[i] = gone
		}
		s.Services = append(s.Services, state)
	}
	d.commands.Range(func(_, one any) bool {
		s.Commands = append(s.Commands, one.(*running).standing(hold))
		return true
	})
	s.Connections = union(had, d.connections())
	if err := s.write(dir); err != nil {
		return held, err
	}
	return held, durable.Sync(dir)
}

// connections are those that the machine has.
func (d *daemon) connections() []network.Connection {
	if n := d.machine.Network(); n != nil {
		return n.Connections()
	}
	return nil
}

// union gives what is in either, once.
func union(a, b []network.Connection) (all []network.Connection) {
	seen := map[network.Connection]bool{}
	for _, c := range slices.Concat(a, b) {
		if !seen[c] {
			seen[c] = true
			all = append(all, c)
		}
	}
	return all
}

// keep writes a file beside it.
func (s *standing) keep(path string, content []byte) error {
	s.Sums[filepath.Base(path)] = sum(content)
	return writeFile(path, content, maxKept)
}

func (s *standing) write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, standingName), append(fmt.Appendf(nil, "%08x\n", sum(text)), text...), maxStanding)
}

// sum is what a file is known by that was damaged.
func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readStanding reads what stand wrote, with kind Corrupt where that, or a file beside it, is not what was written.
func readStanding(dir string) (s standing, err error) {
	text, err := readKept(dir, standingName, maxStanding)
	if err != nil {
		return s, err
	}
	head, text, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != fmt.Sprintf("%08x", sum(text)) || json.Unmarshal(text, &s) != nil {
		return s, damaged(standingName)
	}
	for name, want := range s.Sums {
		if filepath.Base(name) != name {
			return s, damaged(standingName)
		}
		content, err := readKept(dir, name, maxKept)
		if err != nil {
			return s, err
		}
		if sum(content) != want {
			return s, damaged(name)
		}
	}
	return s, nil
}

// readKept reads a file of those beside what a machine was saved as.
func readKept(dir, name string, most int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Newf(fault.Corrupt, "part of it is missing: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

func damaged(name string) error { return fault.Newf(fault.Corrupt, "%s is damaged", name) }

// writeFile writes a file that is not there, flushed, with no more in it than who reads it takes.
func writeFile(path string, content []byte, most int) error {
	if len(content) > most {
		return fault.Newf(fault.Exhausted, "what runs has printed, or was typed, more than can be kept of it: %s would have %d bytes, and may have %d", filepath.Base(path), len(content), most)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func (s *shell) standing(hold func(*outlet) point) standingShell {
	at := hold(s.out)
	var errs *point
	if s.inBackground() {
		errs = new(hold(s.errOut))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := standingShell{
		ID: s.id, ExecID: s.execID, Tag: s.tag, PID: s.pid, Argv: s.argv, Errs: errs, Read: s.taken, Cwd: s.cwd, Opened: s.opened, Cols: s.cols, Rows: s.rows, Switches: s.switches, Out: at, Ended: s.ended, Exit: s.exit,
	}
	if s.err != nil {
		state.Broken = s.of.secrets.Text(s.err.Error())
	}
	state.Taken, state.Typed = s.in.left()
	return state
}

func (v *service) standing(hold func(*outlet) point) (s standingService, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.out == nil {
		return s, false
	}
	return standingService{ExecID: v.execID, Record: v.record, Out: hold(v.out), Errs: hold(v.errs)}, true
}

func (r *running) standing(hold func(*outlet) point) standingCommand {
	h := r.history
	state := standingCommand{ID: r.id, Out: hold(r.out), Errs: hold(r.errs)}
	<-h.begun
	state.Command = h.command
	state.Stdout, state.Stderr = h.stdout.standing(), h.stderr.standing()
	return state
}
