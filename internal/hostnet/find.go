package hostnet

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Host contains the inputs of Find. Tests can use another root.
type Host struct {
	Root string              // root of the file system; empty: /
	Home string              // home of the user, below Root
	Env  func(string) string // returns the value of an environment variable

	// Check returns an error if machines can't use an egress rule. A nil function accepts all
	// rules.
	Check func(rule string) error
}

// ThisHost returns the host of this process, for the user of this process.
func ThisHost() Host {
	home, _ := os.UserHomeDir() // without a home, there are no settings of the user
	return Host{Home: home, Env: os.Getenv}
}

// Find returns the settings of the host. It ignores files that it cannot read, as most of them do
// not exist.
func Find(h Host) Settings {
	s := &search{Host: h}
	s.proxies()
	s.trust()
	s.apt()
	s.goModules()
	s.npm()
	s.pip()
	return s.found
}

// search is one call of Find.
type search struct {
	Host
	found Settings
	known map[[32]byte]bool // sums of the certificates of the host's bundle
}

// maxFile is the maximum size of a configuration file, in bytes. Longer files are cut.
const maxFile = 1 << 20

// read returns the content of a file, or "" if the file can't be read.
func (s *search) read(path string) string {
	f, err := os.Open(filepath.Join("/", s.Root, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// glob returns the files that match the patterns, in order.
func (s *search) glob(patterns ...string) (all []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join("/", s.Root, pattern)) // the patterns are valid
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, strings.TrimSuffix(s.Root, "/")))
		}
	}
	return all
}

// home returns a path below the home of the user, or the empty string if there is none.
func (s *search) home(path string) string {
	if s.Home == "" {
		return ""
	}
	return filepath.Join(s.Home, path)
}

func (s *search) add(all ...Setting) { s.found.All = append(s.found.All, all...) }
