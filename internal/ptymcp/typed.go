package ptymcp

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/pyro-mcp/pyro/internal/danger"
	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/flock"
	"github.com/pyro-mcp/pyro/internal/session"
)

// typedState tracks earlier input of a session that affects the meaning of later input. It is
// stored in a file in the session's folder. Only one server at a time changes it.
//
// The file has two slots, each with a number and a checksum. Servers write them alternately. So if
// a server is killed, one of them is intact. The file is not replaced by renaming, because on many
// file systems that flushes the file. Flushing takes longer than all other work for a key. Neither
// slot contains forgotten input, such as a line that may be a password.
type typedState struct {
	typed  entries
	last   entries      // entries as stored in the file
	now    danger.Typed // state for the program that reads input now
	group  int          // process group of that program; 0: the shell, as in entries.Shell
	start  danger.Start // folder and environment of that program
	number uint64       // number of the slot that was read; 0: nothing is stored
	used   [2]int       // number of used bytes in each slot
	file   *os.File
	lock   *flock.Lock
}

const (
	slotSize = 4 << 20 // mostly unused: a state has at most 100 KiB, which is at most 600 KiB as JSON
	slotHead = 16      // number, length and checksum
)

// entries contains the input to the session's own program, which can be a shell. It separately
// contains the input to the program in the foreground, because keys typed into an editor are not
// part of a shell's command line.
type entries struct {
	Shell      danger.Typed `json:"shell"`
	Foreground danger.Typed `json:"front"`
	Group      int          `json:"group,omitempty"` // process group of Foreground
}

// look finds the program that reads input now.
func (t *typedState) look(info session.Info) {
	foreground := info.Foreground()
	t.start = danger.Start{Cwd: cmp.Or(foreground.Cwd, info.Cwd)}
	reads := danger.Typing(foreground.Command)
	switch {
	case foreground.Group == 0: // the group is unknown
		t.now = t.typed.Shell
	case reads.IsShell():
		t.now = t.typed.Shell.AtPrompt()
	case foreground.Group == info.PGID:
		t.now = t.typed.Shell
	case foreground.Group == t.typed.Group:
		t.now, t.group = t.typed.Foreground, foreground.Group
	default:
		t.now, t.group = reads, foreground.Group
	}
}

// with returns the entries with a new state for the program that reads input now.
func (t *typedState) with(now danger.Typed) entries {
	if t.group == 0 {
		return entries{Shell: now}
	}
	return entries{t.typed.Shell, now, t.group}
}

// openTyped locks and reads the state of a session. The caller must close it.
func openTyped(ctx context.Context, info session.Info) (_ *typedState, err error) {
	path := filepath.Join(string(info.Folder), "typed")
	t := &typedState{typed: entries{Shell: danger.Typing(info.Command)}}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.lock, err = flock.Take(ctx, path+".lock", flock.Exclusive, nil); err != nil {
		return nil, err
	}
	if t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	stat, err := t.file.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() > 0 {
		if err := t.load(); err != nil {
			return nil, err
		}
	}
	t.look(info)
	return t, nil
}

// load reads the stored state.
func (t *typedState) load() error {
	for slot := range int64(2) {
		number, text, err := t.read(slot)
		if err != nil {
			return err
		}
		t.used[slot] = len(text)
		if number <= t.number {
			continue
		}
		if err := json.Unmarshal(text, &t.typed); err != nil {
			return err
		}
		t.number = number
	}
	t.last = t.typed
	if t.number == 0 {
		return fault.Newf(fault.Corrupt, "the record of its input is damaged").WithHint("pty_close")
	}
	return nil
}

// read reads a slot. If the slot is empty or incomplete, number is 0.
func (t *typedState) read(slot int64) (number uint64, text []byte, err error) {
	head := make([]byte, slotHead)
	if _, err := t.file.ReadAt(head, slot*slotSize); err != nil {
		return 0, nil, unlessEOF(err)
	}
	length := binary.LittleEndian.Uint32(head[8:])
	if length > slotSize-slotHead {
		return 0, nil, nil
	}
	text = make([]byte, length)
	if _, err := t.file.ReadAt(text, slot*slotSize+slotHead); err != nil {
		return 0, nil, unlessEOF(err)
	}
	if crc32.Update(crc32.ChecksumIEEE(head[:12]), crc32.IEEETable, text) != binary.LittleEndian.Uint32(head[12:]) {
		return 0, nil, nil
	}
	return binary.LittleEndian.Uint64(head), text, nil
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// enter types input. The parameter next is the state after the input, and enter stores it before it
// types. So after a crash the stored state may contain too much input, but never too little.
func (t *typedState) enter(ctx context.Context, info session.Info, next danger.Typed, what session.Request) error {
	if all := t.with(next); all != t.typed {
		if err := t.keep(all); err != nil {
			return fault.Wrap(err, "type into session", info.ID)
		}
	}
	_, err := info.Ask(ctx, what)
	if k := fault.KindOf(err); k == fault.Exhausted || k == fault.Invalid { // the input was rejected: nothing was typed
		err = errors.Join(err, t.keep(t.typed))
	}
	return err
}

// keep replaces the stored state.
func (t *typedState) keep(next entries) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if len(text) > slotSize-slotHead {
		return fault.Newf(fault.Exhausted, "the record of its input would have %d bytes", len(text))
	}
	forgotten := t.number > 0 && !(next.Shell.Includes(t.last.Shell) && next.Foreground.Includes(t.last.Foreground))
	t.last = next
	if err := t.write(text); err != nil || !forgotten {
		return err
	}
	return t.write(text) // overwrite the other slot too
}

// write writes the next slot. It overwrites the entire old content of that slot.
func (t *typedState) write(text []byte) error {
	t.number++
	slot := t.number % 2
	b := binary.LittleEndian.AppendUint64(nil, t.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, text))
	b = append(b, text...)
	_, err := t.file.WriteAt(append(b, make([]byte, max(t.used[slot]-len(text), 0))...), int64(slot)*slotSize)
	t.used[slot] = len(text)
	return err
}

// close releases the lock and closes the file. It can be called twice.
func (t *typedState) close() {
	if t.file != nil {
		t.file.Close()
	}
	if t.lock != nil {
		t.lock.Release()
	}
	t.file, t.lock = nil, nil
}
