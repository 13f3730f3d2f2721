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

// typedState is what was typed to a session, as far as it matters for what comes next. It is a file in the session's folder, changed by one server at a time.
//
// The file has two places, which are written in turn, each with a number and a sum: a server that is killed leaves what was there, or what it wrote. To replace a file by
// renaming has file systems flush it, which takes longer than all else that is done for a key. What is forgotten, as a line that was entered and may be a password, is in
// neither place then.
type typedState struct {
	typed  entries
	last   entries      // what is kept
	now    danger.Typed // of what reads now
	group  int          // that now is for, 0: typed.Shell's
	place  danger.Place // where it reads
	number uint64       // of the place that it was read from, 0: nothing is kept yet
	used   [2]int       // bytes of the places
	file   *os.File
	lock   *flock.Lock
}

const (
	placeSize = 4 << 20 // of which little is used: a state is some 100 KiB at most, as JSON six times that
	placeHead = 16      // number, length and sum
)

// entries are what was typed to the program that a session began with, and to the shell that it is, and apart from that what was typed to the program that is in its
// foreground: the keys of an editor are no part of a shell's line.
type entries struct {
	Shell danger.Typed `json:"shell"`
	Front danger.Typed `json:"front"`
	Group int          `json:"group,omitempty"` // of the processes that Front is for
}

// look finds out what reads now.
func (t *typedState) look(info session.Info) {
	front := info.Front()
	t.place = danger.Place{Cwd: cmp.Or(front.Cwd, info.Cwd)}
	reads := danger.Typing(front.Command)
	switch {
	case front.Group == 0: // nobody knows
		t.now = t.typed.Shell
	case reads.IsShell():
		t.now = t.typed.Shell.AtPrompt()
	case front.Group == info.PGID:
		t.now = t.typed.Shell
	case front.Group == t.typed.Group:
		t.now, t.group = t.typed.Front, front.Group
	default:
		t.now, t.group = reads, front.Group
	}
}

// with is all, with another state of what reads now.
func (t *typedState) with(now danger.Typed) entries {
	if t.group == 0 {
		return entries{Shell: now}
	}
	return entries{t.typed.Shell, now, t.group}
}

// openTyped reads the state of a session, and keeps others from it. The caller must close it.
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

// load reads what is kept.
func (t *typedState) load() error {
	for place := range int64(2) {
		number, text, err := t.read(place)
		if err != nil {
			return err
		}
		t.used[place] = len(text)
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
		return fault.Newf(fault.Corrupt, "what was typed to it is not known any more").WithHint("pty_close")
	}
	return nil
}

// read reads a place. number is 0 where nothing is, or what was not written to its end.
func (t *typedState) read(place int64) (number uint64, text []byte, err error) {
	head := make([]byte, placeHead)
	if _, err := t.file.ReadAt(head, place*placeSize); err != nil {
		return 0, nil, unlessEOF(err)
	}
	length := binary.LittleEndian.Uint32(head[8:])
	if length > placeSize-placeHead {
		return 0, nil, nil
	}
	text = make([]byte, length)
	if _, err := t.file.ReadAt(text, place*placeSize+placeHead); err != nil {
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

// enter types what leads to next. What is kept is kept before it is typed: a server that is killed in between has seen too much rather than too little.
func (t *typedState) enter(ctx context.Context, info session.Info, next danger.Typed, what session.Request) error {
	if all := t.with(next); all != t.typed {
		if err := t.keep(all); err != nil {
			return fault.Wrap(err, "type into session", info.ID)
		}
	}
	_, err := info.Ask(ctx, what)
	if k := fault.KindOf(err); k == fault.Exhausted || k == fault.Invalid { // refused: nothing was typed
		err = errors.Join(err, t.keep(t.typed))
	}
	return err
}

// keep replaces what is kept.
func (t *typedState) keep(next entries) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if len(text) > placeSize-placeHead {
		return fault.Newf(fault.Exhausted, "what was typed has %d bytes", len(text))
	}
	forgotten := t.number > 0 && !(next.Shell.Keeps(t.last.Shell) && next.Front.Keeps(t.last.Front))
	t.last = next
	if err := t.write(text); err != nil || !forgotten {
		return err
	}
	return t.write(text) // over what is in the other place
}

// write writes to the place that is next, over all that is there.
func (t *typedState) write(text []byte) error {
	t.number++
	place := t.number % 2
	b := binary.LittleEndian.AppendUint64(nil, t.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, text))
	b = append(b, text...)
	_, err := t.file.WriteAt(append(b, make([]byte, max(t.used[place]-len(text), 0))...), int64(place)*placeSize)
	t.used[place] = len(text)
	return err
}

// close may be called again.
func (t *typedState) close() {
	if t.file != nil {
		t.file.Close()
	}
	if t.lock != nil {
		t.lock.Release()
	}
	t.file, t.lock = nil, nil
}
