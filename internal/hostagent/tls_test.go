package hostagent

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/pyro-mcp/pyro/internal/fault"
	healthpb "github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1"
	"github.com/pyro-mcp/pyro/internal/gen/grpc/health/v1/healthv1connect"
	pb "github.com/pyro-mcp/pyro/internal/gen/hostagent/v1"
	"github.com/pyro-mcp/pyro/internal/gen/hostagent/v1/hostagentv1connect"
)

// certs creates a set of certificates and returns its folder.
func certs(t *testing.T, valid time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	if err := MakeCerts(CertsRequest{Dir: dir, Hosts: []string{"127.0.0.1", "localhost"}, Valid: valid}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func filesIn(dir string) TLSFiles {
	return TLSFiles{filepath.Join(dir, CAFile), filepath.Join(dir, ServerFile), filepath.Join(dir, ServerKeyFile)}
}

// clientOf returns a client that trusts the CA in a folder. Unless cert is empty, the client sends
// that certificate.
func clientOf(t *testing.T, trusts, cert, key string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(trusts, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		// Send the certificate regardless of the CAs that the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestClientCertificates tries several client certificates: a valid one, one from another CA, an
// expired one, the server's certificate, and none.
func TestClientCertificates(t *testing.T) {
	ours, others, over := certs(t, time.Hour), certs(t, time.Hour), t.TempDir()
	config, err := filesIn(ours).Config()
	if err != nil {
		t.Fatal(err)
	}
	ca, caKey := readPair(t, filepath.Join(ours, CAFile), filepath.Join(ours, CAKeyFile))
	old := &x509.Certificate{
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if _, err := makeCert(over, ClientFile, ClientKeyFile, old, ca, caKey); err != nil {
		t.Fatal(err)
	}
	address := "https://" + serve(t, open(t, t.TempDir(), newFakes(), Limits{}), ServeOptions{TLS: config})
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		trusts, cert, key string
		served            bool
	}{
		"right":         {ours, in(ours, ClientFile), in(ours, ClientKeyFile), true},
		"missing":       {ours, "", "", false},
		"another CA's":  {ours, in(others, ClientFile), in(others, ClientKeyFile), false},
		"over":          {ours, in(over, ClientFile), in(over, ClientKeyFile), false},
		"of the server": {ours, in(ours, ServerFile), in(ours, ServerKeyFile), false},
		"wrong server":  {others, in(ours, ClientFile), in(ours, ClientKeyFile), false},
	} {
		for _, option := range []connect.ClientOption{connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithProtoJSON()} {
			client := hostagentv1connect.NewHostAgentServiceClient(clientOf(t, c.trusts, c.cert, c.key), address, option)
			if _, err := client.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{})); (err == nil) != c.served {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := MakeCerts(CertsRequest{Dir: ours, Hosts: []string{"x"}, Valid: time.Hour}); fault.KindOf(err) != fault.Exists {
		t.Errorf("certificates were written over: %v", err)
	}
}

// TestReplacedCertificatesAreUsed replaces the certificate files while the host agent serves.
func TestReplacedCertificatesAreUsed(t *testing.T) {
	first, second := certs(t, time.Hour), certs(t, time.Hour)
	config, err := filesIn(first).Config()
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + serve(t, open(t, t.TempDir(), newFakes(), Limits{}), ServeOptions{TLS: config})
	check := func(dir string, served bool) {
		t.Helper()
		c := healthv1connect.NewHealthClient(clientOf(t, dir, filepath.Join(dir, ClientFile), filepath.Join(dir, ClientKeyFile)), address, connect.WithGRPC())
		r, err := c.Check(t.Context(), connect.NewRequest(&healthpb.HealthCheckRequest{}))
		if (err == nil && r.Msg.Status == healthpb.HealthCheckResponse_SERVING) != served {
			t.Errorf("%v %v", r, err)
		}
	}
	kept := t.TempDir()
	copyAll(t, kept, first)
	check(kept, true)
	if err := os.WriteFile(filepath.Join(first, ServerFile), []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(kept, true) // unreadable files are ignored
	copyAll(t, first, second)
	later := time.Now().Add(time.Minute)
	for _, name := range []string{CAFile, ServerFile, ServerKeyFile} {
		if err := os.Chtimes(filepath.Join(first, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	check(second, true)
	check(kept, false)
}

func copyAll(t *testing.T, to, from string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTokenIsRequired checks that all requests without the token fail, except for /healthz.
func TestTokenIsRequired(t *testing.T) {
	address := "http://" + serve(t, open(t, t.TempDir(), newFakes(), Limits{}), ServeOptions{})
	for _, shows := range []string{"", "Bearer wrong", "Bearer " + token + "x", token} {
		for path, want := range map[string]int{"/healthz": 200, "/metrics": 401, "/hostagent.v1.HostAgentService/Terminate": 401} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", shows)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s with %q: %s", path, shows, answer.Status)
			}
		}
	}
	transport := plain(t)
	for _, option := range []connect.ClientOption{connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithProtoJSON()} {
		c := hostagentv1connect.NewHostAgentServiceClient(&http.Client{Transport: transport}, address, option)
		_, unary := c.ListSandboxes(t.Context(), connect.NewRequest(&pb.ListSandboxesRequest{}))
		stream, err := c.ReadFileStream(t.Context(), connect.NewRequest(&pb.ReadFileStreamRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() {
			t.Error("got a result, want an error")
		}
		for _, err := range []error{unary, stream.Err()} {
			if detail := detailOf(err); connect.CodeOf(err) != connect.CodeUnauthenticated || detail.Kind != string(fault.Permission) || !strings.Contains(detail.Hint, "Bearer") {
				t.Errorf("%v, %v", err, detail)
			}
		}
		stream.Close()
	}
	if err := open(t, t.TempDir(), newFakes(), Limits{}).Serve(t.Context(), ServeOptions{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("without TLS and token: %v", err)
	}
}

func TestHostMetrics(t *testing.T) {
	a := open(t, t.TempDir(), newFakes(), Limits{})
	create(t, a, &pb.CreateSandboxRequest{SandboxId: "x"})
	address := serve(t, a, ServeOptions{})
	if _, err := dial(t, address)["connect"].PingSandbox(t.Context(), connect.NewRequest(&pb.PingSandboxRequest{SandboxId: "none"})); err == nil {
		t.Fatal("got no error for a missing sandbox")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := withToken{http.DefaultTransport}.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pyro_host_sandboxes{state=\"running\"} 1\n", "pyro_host_promised_memory_bytes 536870912\n",
		"pyro_host_call_seconds_count{method=\"PingSandbox\",code=\"not_found\"} 1\n", "le=\"+Inf\"} 1\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// readPair reads a certificate and its key.
func readPair(t *testing.T, cert, key string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
}
