//go:build machine

package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// hostCerts contains folders with client certificates: valid ones, ones that another CA has signed,
// and expired ones.
type hostCerts struct{ ours, others, over string }

func (p *program) hostCerts() hostCerts {
	p.t.Helper()
	c := hostCerts{p.t.TempDir(), p.t.TempDir(), p.t.TempDir()}
	for _, dir := range []string{c.ours, c.others} {
		if r := p.run(nil, "host", "certs", "--dir", dir); r.code != 0 {
			p.t.Fatalf("%+v", r)
		}
	}
	if err := certThatIsOver(c.over, c.ours); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// certThatIsOver creates an expired client certificate.
func certThatIsOver(dir, ours string) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(ours, "ca.pem"), filepath.Join(ours, "ca-key.pem"))
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: ca.Leaf.NotBefore, NotAfter: time.Now().Add(-time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, "client.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "client-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// served returns the flags of a host agent that accepts the certificates of c.ours.
func (c hostCerts) served() []string {
	return []string{"--tls-ca", filepath.Join(c.ours, "ca.pem"), "--tls-cert", filepath.Join(c.ours, "server.pem"), "--tls-key", filepath.Join(c.ours, "server-key.pem")}
}

// shown returns the flags that make curl and buf curl use a client certificate. If dir is "", the
// flags contain no client certificate.
func (c hostCerts) shown(dir string) []string {
	flags := []string{"--cacert", filepath.Join(c.ours, "ca.pem")}
	if dir != "" {
		flags = append(flags, "--cert", filepath.Join(dir, "client.pem"), "--key", filepath.Join(dir, "client-key.pem"))
	}
	return flags
}

// refused returns the folders of the certificates that the host agent must reject. For each it
// returns the expected message in the host agent's log.
func (c hostCerts) refused() map[string]string {
	return map[string]string{"": "client didn't provide a certificate", c.others: "certificate signed by unknown authority", c.over: "certificate has expired"}
}
