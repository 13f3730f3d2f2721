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

// TLSFiles are where the certificates of mutual TLS are, in PEM.
type TLSFiles struct {
	CA   string // that signs those of clients
	Cert string // of the host agent
	Key  string
}

// Config serves with them: a client has to have a certificate of the CA that is valid now. Files that have been replaced are read anew, for the connections that
// begin then; where they can't be, those from before go on being used.
func (f TLSFiles) Config() (*tls.Config, error) {
	r := &reloaded{files: f}
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

// reloaded is what the files hold.
type reloaded struct {
	files TLSFiles

	mu     sync.Mutex
	stamps [3]time.Time
	config *tls.Config
}

func (r *reloaded) current() (*tls.Config, error) {
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
		return nil, fault.New(fault.Invalid, "read certificates", f.CA, "there is none in it").WithHint("pyro host certs --dir FOLDER")
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

// CertsRequest says what certificates to make.
type CertsRequest struct {
	Dir   string        // which is made; nothing that is there is written over
	Hosts []string      // names and addresses by which clients know the host agent
	Valid time.Duration // of the host agent's and the client's; the CA's is ten times as long
}

// The files of a set of certificates.
const (
	CAFile, CAKeyFile         = "ca.pem", "ca-key.pem"
	ServerFile, ServerKeyFile = "server.pem", "server-key.pem"
	ClientFile, ClientKeyFile = "client.pem", "client-key.pem"
)

// MakeCerts makes a set: a CA, a certificate of the host agent and one of a client.
func MakeCerts(r CertsRequest) error {
	const op = "make certificates"
	if len(r.Hosts) == 0 || r.Valid <= 0 {
		return fault.New(fault.Invalid, op, "", "there must be a host, and a time for which they are valid")
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fault.Wrap(err, op, r.Dir)
	}
	for _, name := range []string{CAFile, CAKeyFile, ServerFile, ServerKeyFile, ClientFile, ClientKeyFile} {
		if _, err := os.Lstat(filepath.Join(r.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Exists, op, filepath.Join(r.Dir, name), "it is there already, and is not written over").WithHint("name another folder with --dir")
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

// makeCert makes a key and its certificate, signed by a key; nil: by itself.
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
