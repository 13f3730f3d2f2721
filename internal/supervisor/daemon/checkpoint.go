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

	"google.golang.org/protobuf/proto"

	"github.com/pyro-mcp/pyro/internal/durable"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/network"
	"github.com/pyro-mcp/pyro/internal/program"
	"github.com/pyro-mcp/pyro/internal/store"
	"github.com/pyro-mcp/pyro/internal/terminal"
)

// checkpoint is the state of the jobs in a saved machine. It is stored in a file beside the saved
// machine. Each log is stored in another file.
//
// The supervisor that resumes the machine reads the checkpoint. That supervisor might belong to
// another workspace, but must run the same build of pyro.
type checkpoint struct {
	Workspace string         `json:"workspace"` // ID of the workspace that saved the machine
	Shells    []savedShell   `json:"shells,omitempty"`
	Services  []savedService `json:"services,omitempty"`
	Commands  []savedCommand `json:"commands,omitempty"`

	Connections []network.Connection `json:"connections,omitempty"` // the machine's open connections, which end with its network

	Sums map[string]uint32 `json:"sums,omitempty"` // CRC-32C of the log files, by file name
}

type savedShell struct {
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
	Streams  savedStreams      `json:"streams"`
	LogFrom  int64             `json:"log_from"` // offset of the first byte in the log's file
	ErrsFrom int64             `json:"errs_from,omitempty"`
	Input    bool              `json:"input"`
	Consumed int64             `json:"consumed,omitempty"` // bytes of output that the client has received
	Accepted uint64            `json:"accepted,omitempty"` // bytes of input that the machine has accepted
	Typed    []byte            `json:"typed,omitempty"`    // input that the machine has not accepted yet
	Ended    time.Time         `json:"ended,omitzero"`
	Exit     program.Exit      `json:"exit,omitzero"`
	Broken   string            `json:"broken,omitempty"`

	History *savedHistory `json:"history,omitempty"` // nil: the history does not contain the program
}

type savedService struct {
	ExecID  string        `json:"exec_id"`
	Start   []byte        `json:"start,omitempty"` // the encoded command, with the names of its secrets; used for restarts
	Record  store.Service `json:"record"`
	Streams savedStreams  `json:"streams"`
	Gone    [2]int64      `json:"gone"` // bytes that are no longer kept at the start of each log
}

type savedCommand struct {
	savedHistory
	ID      string       `json:"id"`
	Streams savedStreams `json:"streams"`
}

// savedHistory is the entry of a command in the history.
type savedHistory struct {
	Command store.Command    `json:"command"`
	Stdout  program.HeadTail `json:"stdout"`
	Stderr  program.HeadTail `json:"stderr"`
}

const (
	checkpointName = "checkpoint.json"
	maxCheckpoint  = 256 << 20 // bytes; shells can have much unread input
	maxLogCopy     = 16 << 20  // bytes of each log file
)

func shellFile(dir, id string) string   { return filepath.Join(dir, "shell-"+id) }
func shellErrors(dir, id string) string { return shellFile(dir, id) + ".2" }

func serviceFile(dir, name string, stream int) string {
	return filepath.Join(dir, fmt.Sprintf("service-%s.%d", name, stream+1))
}

// saveJobs writes a checkpoint to dir. It blocks the outputs of all jobs until the caller releases
// the writers in held. had contains the connections from before the pause. Some of them might have
// been reset since then.
func (d *daemon) saveJobs(dir string, had []network.Connection) (held []*redactingWriter, err error) {
	c := checkpoint{Workspace: d.config.Workspace.ID, Sums: map[string]uint32{}}
	for _, s := range d.shells.list() {
		saved := s.save(&held)
		from, content := s.log.Retained()
		saved.LogFrom = from
		err := c.writeLog(shellFile(dir, s.shellID), content)
		if err == nil && s.inBackground() {
			saved.ErrsFrom, content = s.errs.Retained()
			err = c.writeLog(shellErrors(dir, s.shellID), content)
		}
		if err != nil {
			return held, err
		}
		c.Shells = append(c.Shells, saved)
	}
	for _, v := range d.services.list() {
		saved, ok, err := v.saveJob(&held)
		if err != nil {
			return held, err
		}
		if !ok {
			continue // it has not been started
		}
		for i, path := range d.folder.Service(saved.Record.Name).Logs() {
			content, gone, err := program.ReadLogFile(path)
			if err == nil {
				err = c.writeLog(serviceFile(dir, saved.Record.Name, i), content)
			}
			if err != nil {
				return held, err
			}
			saved.Gone[i] = gone
		}
		c.Services = append(c.Services, saved)
	}
	for _, one := range d.commands.list() {
		c.Commands = append(c.Commands, one.save(&held))
	}
	c.Connections = union(had, d.connections())
	if err := c.write(dir); err != nil {
		return held, err
	}
	return held, durable.Sync(dir)
}

// connections returns the open connections of the machine's network.
func (d *daemon) connections() []network.Connection {
	if n := d.machine.Network(); n != nil {
		return n.Connections()
	}
	return nil
}

// union returns all connections of both lists, without duplicates.
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

// writeLog writes the file of one log.
func (c *checkpoint) writeLog(path string, content []byte) error {
	c.Sums[filepath.Base(path)] = sum(content)
	return writeFile(path, content, maxLogCopy)
}

// write writes the file of the checkpoint. Its first line is the checksum of the JSON text that
// follows.
func (c *checkpoint) write(dir string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, checkpointName), append(fmt.Appendf(nil, "%08x\n", sum(text)), text...), maxCheckpoint)
}

// sum returns the CRC-32C checksum of a file's content.
func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readCheckpoint reads a checkpoint and verifies all its files. The error has kind Corrupt if a
// file is damaged or missing.
func readCheckpoint(dir string) (c checkpoint, err error) {
	text, err := readSaved(dir, checkpointName, maxCheckpoint)
	if err != nil {
		return c, err
	}
	head, text, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != fmt.Sprintf("%08x", sum(text)) || json.Unmarshal(text, &c) != nil {
		return c, damaged(checkpointName)
	}
	for name, want := range c.Sums {
		if filepath.Base(name) != name {
			return c, damaged(checkpointName)
		}
		content, err := readSaved(dir, name, maxLogCopy)
		if err != nil {
			return c, err
		}
		if sum(content) != want {
			return c, damaged(name)
		}
	}
	return c, nil
}

// readSaved reads at most the given number of bytes from a file of a checkpoint.
func readSaved(dir, name string, most int64) ([]byte, error) {
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

// writeFile creates a file and flushes it to disk. It fails if the content is larger than readers
// accept.
func writeFile(path string, content []byte, most int) error {
	if len(content) > most {
		return fault.Newf(fault.Exhausted, "the programs have too much output or unread input to be saved: %s would have %d bytes, at most %d", filepath.Base(path), len(content), most)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// save returns the state of the shell. It blocks the shell's outputs and adds them to held.
func (s *shell) save(held *[]*redactingWriter) savedShell {
	streams := s.hold(held)
	s.mu.Lock()
	defer s.mu.Unlock()
	saved := savedShell{
		ID: s.shellID, ExecID: s.id, Tag: s.tag, PID: s.pid, Argv: s.argv, Cwd: s.cwd, Opened: s.opened, Cols: s.cols, Rows: s.rows,
		Switches: s.switches, Streams: streams, Input: s.input, Consumed: s.consumed, Ended: s.ended, Exit: s.exit,
	}
	if s.err != nil {
		saved.Broken = s.daemon.secrets.Text(s.err.Error())
	}
	saved.Accepted, saved.Typed = s.in.unread()
	if s.history != nil {
		saved.History = new(s.history.save())
	}
	return saved
}

// saveJob returns the state of the service. It blocks the service's outputs and adds them to held.
func (v *service) saveJob(held *[]*redactingWriter) (saved savedService, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stdout == nil {
		return saved, false, nil
	}
	if v.start != nil {
		if saved.Start, err = proto.Marshal(v.start); err != nil {
			return saved, false, err
		}
	}
	saved.ExecID, saved.Record, saved.Streams = v.id, v.record, v.hold(held)
	return saved, true, nil
}

// save returns the state of the command. It blocks the command's outputs and adds them to held.
func (c *command) save(held *[]*redactingWriter) savedCommand {
	streams := c.hold(held)
	return savedCommand{ID: c.id, Streams: streams, savedHistory: c.history.save()}
}

// save returns the state of the entry. The caller blocks the command's outputs.
func (h *history) save() savedHistory {
	<-h.begun
	return savedHistory{Command: h.command, Stdout: h.stdout.Clone(), Stderr: h.stderr.Clone()}
}
