package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// File is a log on a disk, of which about the last limit bytes are kept. It outlives its writer, whatever becomes of that. It is for one writer and any number of
// readers (ReadFile, Follow) at once. Nothing is flushed: it survives the death of a process, not always that of the host.
type File struct {
	path  string
	limit int64

	mu        sync.Mutex
	file      *os.File
	size      int64    // of the file
	old       *os.File // the one before; nil: there is none
	oldSize   int64
	dropped   int64         // bytes that are not kept any more
	changed   chan struct{} // closed by the next write; nil: no follower waits for it
	closed    bool
	followers int // they keep the files open after Close
}

// A log is in a file, which is given another name, and replaced, when it holds half of the limit.
const (
	oldSuffix     = ".old"
	droppedSuffix = ".dropped"
)

// CreateFile begins an empty log, in the place of one that is there.
func CreateFile(path string, limit int64) (*File, error) {
	if err := RemoveFile(path); err != nil {
		return nil, err
	}
	f := &File{path: path, limit: limit}
	var err error
	f.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return f, err
}

// OpenFile goes on with a log, or begins one where there is none. Where its last writer died in the middle of a line, that line is ended.
func OpenFile(path string, limit int64) (*File, error) {
	f, err := GoOnFile(path, limit)
	if err != nil || f.size == 0 {
		return f, err
	}
	last := make([]byte, 1)
	if _, err = f.file.ReadAt(last, f.size-1); err == nil && last[0] != '\n' {
		_, err = f.Write([]byte("\n"))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// GoOnFile goes on with a log, or begins one where there is none. What is written next follows what is there.
func GoOnFile(path string, limit int64) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f := &File{path: path, limit: limit, file: file, size: info.Size(), dropped: droppedOf(path)}
	if err := f.openOld(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// openOld opens the file before the one that is written, if there is one.
func (f *File) openOld() error {
	old, err := os.Open(f.path + oldSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := old.Stat()
	if err != nil {
		return errors.Join(err, old.Close())
	}
	f.old, f.oldSize = old, info.Size()
	return nil
}

// RestoreFile makes a log of what was kept of another, in the place of one that is there: gone bytes of that are not kept any more.
func RestoreFile(path string, limit, gone int64, kept []byte) (*File, error) {
	f, err := CreateFile(path, limit)
	if err != nil {
		return nil, err
	}
	if f.dropped = gone; gone > 0 {
		err = os.WriteFile(path+droppedSuffix, []byte(strconv.FormatInt(gone, 10)), 0o600)
	}
	if err == nil {
		_, err = f.Write(kept)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// RemoveFile removes a log, where there is one.
func RemoveFile(path string) error {
	for _, suffix := range []string{"", oldSuffix, droppedSuffix} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write appends.
func (f *File) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := len(b)
	for len(b) > 0 {
		room := f.limit/2 - f.size
		if room <= 0 {
			if err := f.turn(); err != nil {
				return total - len(b), err
			}
			continue
		}
		n, err := f.file.Write(b[:min(int64(len(b)), room)])
		f.size += int64(n)
		f.wake()
		b = b[n:]
		if err != nil {
			return total - len(b), err
		}
	}
	return total, nil
}

// turn begins another file.
func (f *File) turn() error {
	dropped := f.dropped + f.oldSize
	if dropped > 0 {
		if err := os.WriteFile(f.path+droppedSuffix, []byte(strconv.FormatInt(dropped, 10)), 0o600); err != nil {
			return err
		}
	}
	next, err := os.OpenFile(f.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Rename(f.path, f.path+oldSuffix), os.Rename(f.path+".new", f.path)); err != nil {
		return errors.Join(err, next.Close())
	}
	if f.old != nil {
		err = f.old.Close()
	}
	f.old, f.oldSize, f.dropped = f.file, f.size, dropped
	f.file, f.size = next, 0
	return err
}

// Close ends the writing. The log stays.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
	return f.closeFiles()
}

// closeFiles closes the files when neither the writer nor a follower needs them.
func (f *File) closeFiles() error {
	if !f.closed || f.followers > 0 {
		return nil
	}
	err := f.file.Close()
	if f.old != nil {
		err = errors.Join(err, f.old.Close())
	}
	return err
}

// ReadFile gives what is kept of a log, which may be written meanwhile, and how many bytes before that are not. There is none: it is empty.
func ReadFile(path string) (kept []byte, dropped int64, err error) {
	for range 100 {
		if kept, dropped, err = readOnce(path); !errors.Is(err, errTurned) {
			return kept, dropped, err
		}
	}
	return nil, 0, fmt.Errorf("read %s: %w", path, err)
}

var errTurned = errors.New("it is written faster than it can be read")

func readOnce(path string) ([]byte, int64, error) {
	now, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, old := os.Stat(path + oldSuffix); old == nil {
			return nil, 0, errTurned // it is being replaced
		}
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer now.Close()
	dropped := droppedOf(path)
	var kept bytes.Buffer
	old, err := os.Open(path + oldSuffix)
	if err == nil {
		defer old.Close()
		if same(now, old) {
			return nil, 0, errTurned
		}
		if _, err := io.Copy(&kept, old); err != nil {
			return nil, 0, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	if _, err := io.Copy(&kept, now); err != nil {
		return nil, 0, err
	}
	// What was opened has to be what is there still.
	again, err := os.Open(path)
	if err != nil {
		return nil, 0, errTurned
	}
	defer again.Close()
	if !same(now, again) {
		return nil, 0, errTurned
	}
	text := kept.Bytes()
	for n := 0; dropped > 0 && n < utf8.UTFMax && len(text) > 0 && !utf8.RuneStart(text[0]); n++ { // of a character that is gone
		text, dropped = text[1:], dropped+1
	}
	return text, dropped, nil
}

// droppedOf is how many bytes of a log are not kept any more.
func droppedOf(path string) int64 {
	text, _ := os.ReadFile(path + droppedSuffix)
	dropped, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return dropped
}

func same(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// LastLines gives the last n lines of a text, and whether that is all of it. A line that has not ended is one.
func LastLines(text []byte, n int) (lines []byte, all bool) {
	end := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; n > 0; n-- {
		i := bytes.LastIndexByte(text[:end], '\n')
		if i < 0 {
			return text, true
		}
		end = i
	}
	if end == len(text) {
		return nil, len(text) == 0
	}
	return text[end+1:], false
}
