package program

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

	"github.com/pyro-mcp/pyro/internal/runes"
)

// LogFile is a log on disk that keeps approximately the last limit bytes. It supports one writer
// and any number of concurrent readers (ReadLogFile, Follow). Its content survives if the writer
// dies. It is never flushed, so it might not survive a crash of the host.
type LogFile struct {
	path  string
	limit int64

	mu        sync.Mutex
	file      *os.File
	size      int64    // size of file.
	old       *os.File // the previous file; can be nil.
	oldSize   int64
	dropped   int64         // bytes that are no longer kept.
	changed   chan struct{} // closed by the next write; nil: no follower waits.
	closed    bool
	followers int // number of followers, which keep the files open after Close.
}

// When the file contains half of the limit, the writer rotates it: it becomes the previous file,
// and a new file is started.
const (
	oldSuffix     = ".old"
	droppedSuffix = ".dropped"
)

// CreateLogFile creates an empty log. It replaces an existing log.
func CreateLogFile(path string, limit int64) (*LogFile, error) {
	if err := RemoveLogFile(path); err != nil {
		return nil, err
	}
	f := &LogFile{path: path, limit: limit}
	var err error
	f.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return f, err
}

// OpenLogFile opens a log to append to it, or creates one. If the last writer died before it
// completed a line, OpenLogFile ends that line.
func OpenLogFile(path string, limit int64) (*LogFile, error) {
	f, err := ResumeLogFile(path, limit)
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

// ResumeLogFile opens a log to append to it, or creates one.
func ResumeLogFile(path string, limit int64) (*LogFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f := &LogFile{path: path, limit: limit, file: file, size: info.Size(), dropped: droppedOf(path)}
	if err := f.openOld(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// openOld opens the previous file, if there is one.
func (f *LogFile) openOld() error {
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

// RestoreLogFile creates a log with the stored bytes of another log. gone is the number of bytes
// before them. It replaces an existing log.
func RestoreLogFile(path string, limit, gone int64, kept []byte) (*LogFile, error) {
	f, err := CreateLogFile(path, limit)
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

// RemoveLogFile removes a log, if there is one.
func RemoveLogFile(path string) error {
	for _, suffix := range []string{"", oldSuffix, droppedSuffix} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write appends b.
func (f *LogFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := len(b)
	for len(b) > 0 {
		room := f.limit/2 - f.size
		if room <= 0 {
			if err := f.rotate(); err != nil {
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

// rotate makes the current file the previous file, and starts a new file.
func (f *LogFile) rotate() error {
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

// Close closes the log for writing. The content is kept.
func (f *LogFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
	return f.closeFiles()
}

// closeFiles closes the files, unless the writer or a follower still needs them.
func (f *LogFile) closeFiles() error {
	if !f.closed || f.followers > 0 {
		return nil
	}
	err := f.file.Close()
	if f.old != nil {
		err = errors.Join(err, f.old.Close())
	}
	return err
}

// ReadLogFile returns the bytes that a log keeps, and the number of bytes before them. A missing
// log counts as empty. The log can be written at the same time.
func ReadLogFile(path string) (kept []byte, dropped int64, err error) {
	for range 100 {
		if kept, dropped, err = readOnce(path); !errors.Is(err, errRotated) {
			return kept, dropped, err
		}
	}
	return nil, 0, fmt.Errorf("read %s: %w", path, err)
}

var errRotated = errors.New("the log is written faster than it can be read")

func readOnce(path string) ([]byte, int64, error) {
	now, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, old := os.Stat(path + oldSuffix); old == nil {
			return nil, 0, errRotated // the writer is just rotating the file
		}
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer now.Close()
	dropped := droppedOf(path)
	var content bytes.Buffer
	old, err := os.Open(path + oldSuffix)
	if err == nil {
		defer old.Close()
		if same(now, old) {
			return nil, 0, errRotated
		}
		if _, err := io.Copy(&content, old); err != nil {
			return nil, 0, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	if _, err := io.Copy(&content, now); err != nil {
		return nil, 0, err
	}
	// If the file was rotated during the read, parts might be missing.
	again, err := os.Open(path)
	if err != nil {
		return nil, 0, errRotated
	}
	defer again.Close()
	if !same(now, again) {
		return nil, 0, errRotated
	}
	text := content.Bytes()
	if dropped > 0 {
		skip := runes.Rest(text)
		text, dropped = text[skip:], dropped+int64(skip)
	}
	return text, dropped, nil
}

// droppedOf returns the recorded number of bytes that are no longer kept.
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

// LastLines returns the last n lines of a text. all reports whether these are the whole text. An
// incomplete last line counts as a line.
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
