// Package ring keeps the last bytes of a log with absolute offsets.
package ring

// Ring is such a log. It grows as it is written, up to its limit. It is not safe for concurrent use.
type Ring struct {
	first, limit int
	bytes        []byte // byte n of the log is at n % len
	begin, end   uint64
}

// New makes an empty log that keeps the last limit bytes, and takes memory for first of them with the first write.
func New(first, limit int) Ring { return Ring{first: min(first, limit), limit: limit} }

// At makes a log of which the bytes before an offset are gone.
func At(first, limit int, offset uint64) Ring {
	r := New(first, limit)
	r.begin, r.end = offset, offset
	return r
}

// End is the offset of the next byte.
func (r *Ring) End() uint64 { return r.end }

// Start is the offset of the first byte that is kept.
func (r *Ring) Start() uint64 {
	if size := uint64(len(r.bytes)); r.end > size {
		return max(r.begin, r.end-size)
	}
	return r.begin
}

// Write appends. What comes before the last limit bytes is gone.
func (r *Ring) Write(b []byte) {
	if skip := len(b) - r.limit; skip > 0 { // which nobody could read
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

// grow makes the ring large enough for n more bytes beside what is kept, up to the limit.
func (r *Ring) grow(n int) {
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

// Bytes copies what is kept between two offsets.
func (r *Ring) Bytes(from, to uint64) []byte {
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
