package program

// ring keeps the last bytes of a log. Its memory grows with the log, up to a limit. It is not safe
// for concurrent use.
type ring struct {
	first, limit int
	bytes        []byte // byte n of the log is at index n modulo len(bytes)
	begin, end   uint64
}

// newRing returns an empty ring that keeps the last limit bytes. The parameter first is the number
// of bytes that the first write allocates at least.
func newRing(first, limit int) ring { return ring{first: min(first, limit), limit: limit} }

// ringAt returns an empty ring whose first byte will have the given offset.
func ringAt(first, limit int, offset uint64) ring {
	r := newRing(first, limit)
	r.begin, r.end = offset, offset
	return r
}

// End returns the offset of the next byte that will be written.
func (r *ring) End() uint64 { return r.end }

// Start returns the offset of the first kept byte.
func (r *ring) Start() uint64 {
	if size := uint64(len(r.bytes)); r.end > size {
		return max(r.begin, r.end-size)
	}
	return r.begin
}

// Write appends b. It keeps only the last limit bytes.
func (r *ring) Write(b []byte) {
	if skip := len(b) - r.limit; skip > 0 { // skip bytes that this call itself would drop
		r.end += uint64(skip)
		b = b[skip:]
	}
	r.grow(len(b))
	for len(b) > 0 {
		n := copy(r.bytes[r.end%uint64(len(r.bytes)):], b)
		r.end += uint64(n)
		b = b[n:]
	}
}

// grow makes room for n more bytes, up to the limit.
func (r *ring) grow(n int) {
	kept := r.end - r.Start()
	want := max(r.first, len(r.bytes))
	for uint64(want) < kept+uint64(n) && want < r.limit {
		want = min(2*want, r.limit)
	}
	if want == len(r.bytes) {
		return
	}
	larger := make([]byte, want)
	for at := r.Start(); at < r.end; {
		from := r.bytes[at%uint64(len(r.bytes)):]
		from = from[:min(uint64(len(from)), r.end-at)]
		at += uint64(copy(larger[at%uint64(want):], from))
	}
	r.bytes = larger
}

// Bytes returns a copy of the kept bytes between two offsets.
func (r *ring) Bytes(from, to uint64) []byte {
	from, to = max(from, r.Start()), min(to, r.end)
	if from >= to {
		return nil
	}
	b := make([]byte, to-from)
	for n := 0; n < len(b); {
		n += copy(b[n:], r.bytes[(from+uint64(n))%uint64(len(r.bytes)):])
	}
	return b
}
