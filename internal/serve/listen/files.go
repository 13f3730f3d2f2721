package listen

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// checkEvery is how often connections check whether the files have changed.
const checkEvery = time.Second

// fromFiles returns a configuration whose certificate comes from files. New connections use the
// current content of the files. While the files are invalid, new connections use the last valid
// content.
func fromFiles(o Options) (*tls.Config, error) {
	f := &files{cert: o.CertFile, key: o.KeyFile, log: o.Log}
	if err := f.load(f.stat()); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current(), nil }}, nil
}

// files caches a certificate until one of its files changes.
type files struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	stamps  [2]stamp
	checked time.Time
}

// stamp identifies a version of a file. It changes when the file is written or replaced.
type stamp struct {
	modified time.Time
	size     int64
}

func (f *files) stat() (s [2]stamp) {
	for i, path := range []string{f.cert, f.key} {
		if info, err := os.Stat(path); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

// load reads the files. s contains their stamps from before the read.
func (f *files) load(s [2]stamp) error {
	f.stamps, f.checked = s, time.Now()
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return &fault.Error{Op: "read certificate", Subject: f.cert, Kind: fault.Invalid, Err: err, Hint: "--tls-cert and --tls-key need PEM files that belong together"}
	}
	f.pair = &pair
	return nil
}

func (f *files) current() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < checkEvery {
		return f.pair
	}
	f.checked = time.Now()
	if s := f.stat(); s != f.stamps {
		if err := f.load(s); err != nil {
			f.log.Error("the old certificate stays in use", "error", err)
		} else {
			f.log.Info("a new certificate is in use", "file", f.cert)
		}
	}
	return f.pair
}
