package program

import "os"

// Follower reads a LogFile in the process that writes the log. It delays the writer only during a
// read. It counts the bytes that it missed. Only one goroutine can use it. The caller must close
// it.
type Follower struct {
	file   *LogFile
	cursor int64
}

// Follow returns a Follower that starts at the last lines of the log. If lines is 0, it starts at
// the first byte that was ever written. Follow returns os.ErrClosed if the log has been closed.
func (f *LogFile) Follow(lines int) (*Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	r := &Follower{file: f}
	if lines > 0 {
		kept := make([]byte, f.oldSize+f.size)
		if err := f.readAt(kept, f.dropped); err != nil {
			return nil, err
		}
		last, _ := LastLines(kept, lines)
		r.cursor = f.end() - int64(len(last))
	}
	f.followers++
	return r, nil
}

// Changed returns a channel that is closed by the next write or when the log is closed. To miss
// nothing, call Changed before Next.
func (r *Follower) Changed() <-chan struct{} {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// Next returns at most limit new bytes. dropped is the number of bytes before them that are no
// longer kept. data is empty if there is nothing new.
func (r *Follower) Next(limit int) (data []byte, dropped int64, err error) {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	from := max(r.cursor, f.dropped)
	if data = make([]byte, min(int64(limit), f.end()-from)); len(data) > 0 {
		err = f.readAt(data, from)
	}
	if err != nil {
		return nil, 0, err
	}
	dropped, r.cursor = from-r.cursor, from+int64(len(data))
	return data, dropped, nil
}

// Close closes the Follower. The log's files are closed when neither the writer nor a follower
// needs them.
func (r *Follower) Close() error {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers--
	return f.closeFiles()
}

// end returns the offset of the next write. The caller holds f.mu.
func (f *LogFile) end() int64 { return f.dropped + f.oldSize + f.size }

// readAt fills b with the bytes that start at offset. The caller holds f.mu.
func (f *LogFile) readAt(b []byte, offset int64) error {
	if at := offset - f.dropped; at < f.oldSize {
		part := b[:min(int64(len(b)), f.oldSize-at)]
		if _, err := f.old.ReadAt(part, at); err != nil {
			return err
		}
		b, offset = b[len(part):], offset+int64(len(part))
	}
	if len(b) == 0 {
		return nil
	}
	_, err := f.file.ReadAt(b, offset-f.dropped-f.oldSize)
	return err
}

// wake wakes waiting followers. The caller holds f.mu.
func (f *LogFile) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
