package listen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestMain is also the program that TestActivated starts with a socket.
func TestMain(m *testing.M) {
	if os.Getenv("LISTEN_FDS") == "" {
		os.Exit(m.Run())
	}
	s, err := Open(Options{Address: "127.0.0.1:1"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("%s %q\n", s.Addr(), os.Getenv("LISTEN_FDS"))
	c, err := s.Accept()
	if err == nil {
		io.WriteString(c, "hello")
		c.Close()
	}
	os.Exit(0)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeCert writes a new certificate with a serial number.
func writeCert(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	check(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	check(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	check(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// TestWithoutTLS checks that only loopback addresses work without TLS.
func TestWithoutTLS(t *testing.T) {
	for _, o := range []Options{
		{Address: "0.0.0.0:0"}, {Address: ":0"}, {Address: "[::]:0"}, {Address: "192.0.2.1:80"}, {Address: "localhost:0"}, {Address: "127.0.0.1"},
		{Address: "127.0.0.1:0", CertFile: "x"}, {Address: "127.0.0.1:0", KeyFile: "x"}, {Address: "127.0.0.1:0", CertFile: "x", KeyFile: "x", Domain: "example.com"},
		{Address: "127.0.0.1:0", CertFile: "/none", KeyFile: "/none"},
	} {
		s, err := Open(o)
		if fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
			t.Errorf("%+v: %v", o, err)
		}
		if err == nil {
			s.Close()
		}
	}
	for _, o := range []Options{{Address: "127.0.0.1:0"}, {Address: "0.0.0.0:0", Insecure: true}} {
		s, err := Open(o)
		check(t, err)
		s.Close()
	}
}

// TestFiles serves with certificates from files, replaces them, and damages them.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCert(t, dir, 1)
	var log bytes.Buffer
	s, err := Open(Options{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	server := &http.Server{TLSConfig: s.TLS, ErrorLog: nil, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
	go server.ServeTLS(s, "", "")
	defer server.Close()
	get := func() (proto string, serial int64) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr().String())
		check(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		check(t, err)
		return string(text), r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	began := time.Now()
	if proto, serial := get(); proto != "HTTP/2.0" || serial != 1 {
		t.Errorf("got %s with the certificate %d", proto, serial)
	}
	writeCert(t, dir, 2)
	if _, serial := get(); serial != 1 && time.Since(began) < checkEvery {
		t.Errorf("it read the files again at once: certificate %d", serial)
	}
	time.Sleep(checkEvery + 50*time.Millisecond)
	if _, serial := get(); serial != 2 {
		t.Errorf("got the certificate %d after the change", serial)
	}
	check(t, os.WriteFile(key, []byte("damaged"), 0o600))
	time.Sleep(checkEvery + 50*time.Millisecond)
	if _, serial := get(); serial != 2 || !bytes.Contains(log.Bytes(), []byte("the old certificate stays in use")) {
		t.Errorf("got the certificate %d after the damage; the log is %s", serial, log.String())
	}
}

// TestActivated passes a socket to another process, as systemd does.
func TestActivated(t *testing.T) {
	for address, works := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false} {
		l, err := net.Listen("tcp", address)
		check(t, err)
		f, err := l.(*net.TCPListener).File()
		check(t, err)
		conn, err := net.Dial("tcp", l.Addr().String()) // waits in the socket
		check(t, err)
		defer conn.Close()
		cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ exec "+os.Args[0])
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), "LISTEN_FDS=1"), []*os.File{f}
		check(t, l.Close())
		out, err := cmd.Output()
		f.Close()
		if want := fmt.Sprintf("%s %q\n", l.Addr(), ""); works && (err != nil || string(out) != want) {
			t.Errorf("got %q, want %q: %v", out, want, err)
		}
		if !works && err == nil {
			t.Errorf("a socket that the network can reach was accepted without TLS: %s", out)
		}
		if text, _ := io.ReadAll(conn); works && string(text) != "hello" {
			t.Errorf("the waiting client got %q", text)
		}
	}
}
