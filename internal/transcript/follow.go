package transcript

import "os"

// Follower reads a File in the process that writes it. It holds up the writer for no longer than one
// read takes: bytes that are gone before it asks for them are counted. It is for one goroutine. Close it.
type Follower struct {
	file   *File
	cursor int64
}

// Follow begins with the last lines of what is kept, or with lines 0 at the beginning of all that was
// written. The error is os.ErrClosed if the writing has ended.
func (f *File) Follow(lines int) (*Follower, error) {
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

// Changed returns a channel that the next write closes, and the end of the writing.
// Call it before Next, which then misses nothing.
func (r *Follower) Changed() <-chan struct{} {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// Next returns what follows, at most limit bytes, and how many bytes before that are not kept any more.
// Without any bytes there is nothing new.
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

// Close gives the files back.
func (r *Follower) Close() error {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers--
	return f.closeFiles()
}

// end is the offset of what is written next. The caller holds f.mu.
func (f *File) end() int64 { return f.dropped + f.oldSize + f.size }

// readAt fills b with what is kept from an offset on. The caller holds f.mu.
func (f *File) readAt(b []byte, offset int64) error {
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

// wake tells the followers that wait. The caller holds f.mu.
func (f *File) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
