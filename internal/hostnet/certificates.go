package hostnet

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// anchors are the folders for the CA certificates of administrators: Debian, Fedora, SUSE and Arch.
var anchors = []string{
	"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors", "/etc/pki/trust/anchors", "/etc/ca-certificates/trust-source/anchors",
}

// bundles are the files that contain all CA certificates of a system: Debian, Fedora, SUSE, Alpine.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}

// trustVariables name files with CA certificates.
var trustVariables = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE",
}

type certificate struct {
	sum [sha256.Size]byte // hash of the DER form
	der []byte
	ca  *x509.Certificate
}

// parse returns the certificates of a file. Files of administrators can also contain private keys,
// which it skips.
func parse(text string) (all []certificate) {
	add := func(der []byte) {
		if c, err := x509.ParseCertificate(der); err == nil {
			all = append(all, certificate{sha256.Sum256(der), der, c})
		}
	}
	rest := []byte(text)
	if !bytes.Contains(rest, []byte("-----BEGIN")) {
		add(rest)
		return all
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			add(block.Bytes)
		}
	}
}

// text returns the certificate as PEM, after a comment with its name.
func (c certificate) text() string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, c.ca.Subject.String())
	return "# " + name + "\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}))
}

// trust finds the CA certificates that an administrator of this host has added.
func (s *search) trust() {
	for _, folder := range anchors {
		filepath.WalkDir(filepath.Join("/", s.Root, folder), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				s.certificatesOf(strings.TrimPrefix(path, strings.TrimSuffix(s.Root, "/")))
			}
			return nil
		})
	}
	for _, name := range trustVariables {
		if path := s.Env(name); path != "" {
			s.certificatesOf(path)
		}
	}
}

// certificatesOf adds the certificates of a file. It skips the certificates of the host's bundle,
// which most environments contain. It does not skip them if an administrator has put the file
// there.
func (s *search) certificatesOf(path string) {
	if s.isBundle(path) {
		return
	}
	size, taken := 0, map[[sha256.Size]byte]bool{}
	for _, c := range s.found.certificates {
		taken[c.sum] = true
		size += len(c.text())
	}
	for _, c := range parse(s.read(path)) {
		if taken[c.sum] || !s.isAnchor(path) && s.inBundle(c) {
			continue
		}
		taken[c.sum] = true
		found := Setting{Tool: "certificates", Name: "CA", Value: nameOf(c.ca), Source: path}
		if size += len(c.text()); size > MaxCertificates {
			found.Unusable = "there are too many CA certificates"
		} else {
			s.found.certificates = append(s.found.certificates, c)
		}
		s.add(found)
	}
}

// inBundle reports whether the host's bundle contains a certificate.
func (s *search) inBundle(c certificate) bool {
	if s.known == nil {
		s.known = map[[sha256.Size]byte]bool{}
		for _, c := range parse(s.Bundle()) {
			s.known[c.sum] = true
		}
	}
	return s.known[c.sum]
}

func nameOf(c *x509.Certificate) string {
	if c.Subject.CommonName != "" {
		return c.Subject.CommonName
	}
	return c.Subject.String()
}

// isBundle reports whether a path leads to the host's own bundle.
func (s *search) isBundle(path string) bool {
	real := s.resolved(path)
	return slices.ContainsFunc(bundles, func(b string) bool { return real == s.resolved(b) })
}

func (s *search) resolved(path string) string {
	path = filepath.Join("/", s.Root, path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func (s *search) isAnchor(path string) bool {
	return slices.ContainsFunc(anchors, func(a string) bool { return strings.HasPrefix(path, a+"/") })
}

// Bundle returns the CA certificates that this host trusts, as PEM. It returns nothing if there is
// no known bundle.
func (h Host) Bundle() string {
	s := &search{Host: h}
	for _, b := range bundles {
		if text := s.read(b); text != "" {
			return text
		}
	}
	return ""
}
