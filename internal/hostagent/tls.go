package hostagent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TLSFiles names the PEM files for mutual TLS.
type TLSFiles struct {
	CA   string // the CA that signs client certificates
	Cert string // the host agent's certificate
	Key  string
}

// Config returns a TLS configuration that requires a valid client certificate from the CA. New
// connections use the current content of the files. If the files can't be read, the last valid
// content stays in use.
func (f TLSFiles) Config() (*tls.Config, error) {
	r := &reloader{files: f}
	if _, err := r.current(); err != nil {
		return nil, fault.Wrap(err, "read certificates", "")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current() },
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			config, err := r.current()
			if err != nil {
				return nil, err
			}
			return &config.Certificates[0], nil
		},
	}, nil
}

// reloader caches the content of the files until a file changes.
type reloader struct {
	files TLSFiles

	mu     sync.Mutex
	stamps [3]time.Time
	config *tls.Config
}

func (r *reloader) current() (*tls.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var stamps [3]time.Time
	for i, path := range []string{r.files.CA, r.files.Cert, r.files.Key} {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime()
		}
	}
	if r.config != nil && stamps == r.stamps {
		return r.config, nil
	}
	config, err := r.files.read()
	if err != nil {
		if r.config != nil {
			return r.config, nil
		}
		return nil, err
	}
	r.config, r.stamps = config, stamps
	return config, nil
}

func (f TLSFiles) read() (*tls.Config, error) {
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fault.New(fault.Invalid, "read certificates", f.CA, "it has no certificate").WithHint("pyro host certs --dir FOLDER")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Invalid, Subject: f.Cert, Err: err, Hint: "pyro host certs --dir FOLDER"}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, Certificates: []tls.Certificate{pair},
	}, nil
}

// CertsRequest configures MakeCerts.
type CertsRequest struct {
	Dir   string        // created if it does not exist. Existing files are not overwritten.
	Hosts []string      // names and addresses of the host agent.
	Valid time.Duration // validity of the server and client certificates. The CA is valid ten times as long.
}

// The files that MakeCerts writes.
const (
	CAFile, CAKeyFile         = "ca.pem", "ca-key.pem"
	ServerFile, ServerKeyFile = "server.pem", "server-key.pem"
	ClientFile, ClientKeyFile = "client.pem", "client-key.pem"
)

// MakeCerts creates a CA, a certificate for the host agent and a certificate for a client, each
// with its key.
func MakeCerts(r CertsRequest) error {
	const op = "make certificates"
	if len(r.Hosts) == 0 || r.Valid <= 0 {
		return fault.New(fault.Invalid, op, "", "at least one host and a positive validity are required")
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fault.Wrap(err, op, r.Dir)
	}
	for _, name := range []string{CAFile, CAKeyFile, ServerFile, ServerKeyFile, ClientFile, ClientKeyFile} {
		if _, err := os.Lstat(filepath.Join(r.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Exists, op, filepath.Join(r.Dir, name), "it exists and is not overwritten").WithHint("name another folder with --dir")
		}
	}
	now := time.Now()
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "pyro host CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10 * r.Valid),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, MaxPathLenZero: true,
	}
	caKey, err := makeCert(r.Dir, CAFile, CAKeyFile, ca, ca, nil)
	if err != nil {
		return fault.Wrap(err, op, r.Dir)
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: r.Hosts[0]}, NotBefore: ca.NotBefore, NotAfter: now.Add(r.Valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: "pyro host client"}, NotBefore: ca.NotBefore, NotAfter: now.Add(r.Valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	_, err1 := makeCert(r.Dir, ServerFile, ServerKeyFile, server, ca, caKey)
	_, err2 := makeCert(r.Dir, ClientFile, ClientKeyFile, client, ca, caKey)
	return fault.Wrap(errors.Join(err1, err2), op, r.Dir)
}

// makeCert creates a key and a certificate for that key. If signer is nil, the certificate is
// self-signed.
func makeCert(dir, certFile, keyFile string, cert, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if signer == nil {
		signer = key
	}
	if cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, errors.Join(
		os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
		os.WriteFile(filepath.Join(dir, certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
}
