package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"os"
	"time"

	"github.com/pyro-mcp/pyro/internal/agent/client"
)

// rawGuest is the path of the program rawguest. It is a source for an initramfs.
type rawGuest string

func (g rawGuest) Bytes() ([]byte, error) { return os.ReadFile(string(g)) }

func (g rawGuest) Digest() string {
	text, _ := g.Bytes()
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

const (
	fileSize = 64 << 20 // size of the file in the throughput measurements
	bigFile  = 1 << 30  // size of the file in the memory measurement
)

// zeroes is an endless stream of zero bytes.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func rate(size int64, took time.Duration) float64 { return float64(size) / 1e6 / took.Seconds() }

// rawIn measures the throughput of writing to a raw port. The last byte makes rawguest acknowledge
// the data.
func rawIn(link net.Conn) (float64, error) {
	buffer := make([]byte, 256<<10)
	began := time.Now()
	for sent := 0; sent < fileSize; sent += len(buffer) {
		if sent+len(buffer) >= fileSize {
			buffer[len(buffer)-1] = 'E'
		}
		if _, err := link.Write(buffer); err != nil {
			return 0, err
		}
	}
	if _, err := io.ReadFull(link, buffer[:1]); err != nil {
		return 0, err
	}
	return rate(fileSize, time.Since(began)), nil
}

// rawOut measures the throughput of reading from a raw port.
func rawOut(link net.Conn) (float64, error) {
	began := time.Now()
	_, err := io.CopyN(io.Discard, struct{ io.Reader }{link}, fileSize)
	return rate(fileSize, time.Since(began)), err
}

// files compares file transfers to and from a machine with transfers over a raw port.
func (b *bench) files() error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	defer m.Close()
	const path = "/dev/shm/file" // in memory, because the link is measured and not the disk
	in := func() (float64, error) {
		began := time.Now()
		err := m.Agent.WriteFile(b.ctx, client.FileSpec{Path: path, Size: fileSize}, io.LimitReader(zeroes{}, fileSize))
		return rate(fileSize, time.Since(began)), err
	}
	out := func() (float64, error) {
		began := time.Now()
		_, err := m.Agent.ReadFile(b.ctx, path, 0, 0, io.Discard)
		return rate(fileSize, time.Since(began)), err
	}
	sink, err := b.raw('w')
	if err != nil {
		return err
	}
	defer sink.Close()
	rates, err := b.alternate(b.n, in, func() (float64, error) { return rawIn(sink.Link) })
	if err != nil {
		return err
	}
	b.figures = append(b.figures, figure("file into a machine, 64 MiB", "MB/s", rates[0]).share(rates[1], 0.7))
	sink.Close()
	source, err := b.raw('r')
	if err != nil {
		return err
	}
	defer source.Close()
	if rates, err = b.alternate(b.n, out, func() (float64, error) { return rawOut(source.Link) }); err != nil {
		return err
	}
	b.figures = append(b.figures, figure("file out of a machine, 64 MiB", "MB/s", rates[0]).share(rates[1], 0.7))
	return nil
}

// alternate is like times, but its functions return their own measurements.
func (b *bench) alternate(n int, all ...func() (float64, error)) ([][]float64, error) {
	results := make([][]float64, len(all))
	for i := range n + 1 {
		for j, f := range all {
			r, err := f()
			if err != nil {
				return nil, err
			}
			if i > 0 {
				results[j] = append(results[j], r)
			}
		}
	}
	return results, nil
}
