package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pyro-mcp/pyro/internal/testenv"
)

// nameServer answers every query for IPv4 addresses with 127.0.0.1, and other queries with an empty
// answer. New versions of Pebble ask over TCP, and old ones over UDP.
func nameServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerNames(conn)
		}
	}()
	packets, err := net.ListenPacket("udp", l.Addr().String())
	check(t, err)
	t.Cleanup(func() { packets.Close() })
	go func() {
		question := make([]byte, 1500)
		for {
			n, from, err := packets.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := answerName(question[:n]); err == nil {
				packets.WriteTo(answer, from)
			}
		}
	}()
	return l.Addr().String()
}

// answerNames answers the questions in a connection. Each message has its length before it.
func answerNames(conn net.Conn) {
	defer conn.Close()
	for {
		size := make([]byte, 2)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer, err := answerName(question)
		if err != nil {
			return
		}
		conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}

func answerName(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestACME gets a certificate from Pebble, the ACME server for tests of Let's Encrypt. A second
// server on the same cache does not need it.
func TestACME(t *testing.T) {
	pebble := testenv.NeedsTool(t, "pebble")
	const domain = "pyro.example.com"
	dir := t.TempDir()
	cert, key := writeCert(t, dir, 1)
	address, tlsAddress := freePort(t), freePort(t)
	_, tlsPort, _ := net.SplitHostPort(tlsAddress)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": address, "certificate": cert, "privateKey": key, "httpPort": 1, "tlsPort": json.Number(tlsPort),
	}})
	check(t, err)
	configFile := filepath.Join(dir, "pebble.json")
	check(t, os.WriteFile(configFile, config, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, pebble, "-config", configFile, "-dnsserver", nameServer(t))
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"), &output, &output
	check(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
	for end := time.Now().Add(testenv.Patience); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	check(t, err)
	roots.AppendCertsFromPEM(text)
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer trusting.CloseIdleConnections()

	get := func(name string) (*x509.Certificate, error) {
		t.Helper()
		o := Options{Address: tlsAddress, Domain: domain, Directory: "https://" + address + "/dir", Cache: filepath.Join(dir, "cache"), Log: slog.New(slog.DiscardHandler)}
		s, err := open(o, trusting)
		check(t, err)
		server := &http.Server{TLSConfig: s.TLS, ErrorLog: log.New(t.Output(), "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
		go server.ServeTLS(s, "", "")
		defer server.Close()
		d := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
		c, err := d.DialContext(t.Context(), "tcp", tlsAddress)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		state := c.(*tls.Conn).ConnectionState()
		if state.NegotiatedProtocol != "h2" {
			t.Errorf("got the protocol %q", state.NegotiatedProtocol)
		}
		return state.PeerCertificates[0], nil
	}
	if _, err := get("other.example.com"); err == nil {
		t.Error("got a certificate for another name")
	}
	first, err := get(domain)
	check(t, err)
	if err := first.VerifyHostname(domain); err != nil || !strings.Contains(first.Issuer.CommonName, "Pebble") {
		t.Errorf("got the certificate of %v: %v", first.Issuer, err)
	}
	cancel()
	cmd.Wait()
	again, err := get(domain)
	check(t, err)
	if !again.Equal(first) {
		t.Error("the cache was not used")
	}
}
