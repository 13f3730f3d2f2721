package serve

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/control/store"
	"github.com/pyro-mcp/pyro/internal/secret"
)

// idProvider is an OpenID provider with one user, who agrees to everything.
type idProvider struct {
	*httptest.Server
	key, other *rsa.PrivateKey

	mu     sync.Mutex
	codes  map[string]url.Values // requests by the code that was issued for them
	claims map[string]any        // claims in the ID token
	info   map[string]any        // response of the endpoint for user information

	// Faults of the provider.
	alg    string          // algorithm of the ID token; empty: RS256
	signer *rsa.PrivateKey // nil: key
	change func(claims map[string]any)
}

func newIDProvider(t *testing.T) *idProvider {
	t.Helper()
	p := &idProvider{codes: map[string]url.Values{}}
	var err error
	if p.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if p.other, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"userinfo_endpoint": p.URL + "/info", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		if q.Get("client_id") != "pyro" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") || q.Get("nonce") == "" || q.Get("state") == "" {
			t.Errorf("the request is %v", q)
		}
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(p.info)
	})
	return p
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token exchanges a code once, for the client that knows its secret and the verifier.
func (p *idProvider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	id, password, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if !ok || id != "pyro" || password != "hidden" || encode(sum[:]) != asked.Get("code_challenge") || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error": "invalid_grant"}`)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "pyro", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "nonce": asked.Get("nonce")}
	for name, value := range p.claims {
		claims[name] = value
	}
	if p.change != nil {
		p.change(claims)
	}
	json.NewEncoder(w).Encode(map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": p.sign(claims)})
}

func (p *idProvider) sign(claims map[string]any) string {
	alg, signer := "RS256", p.key
	if p.alg != "" {
		alg = p.alg
	}
	if p.signer != nil {
		signer = p.signer
	}
	head, _ := json.Marshal(map[string]any{"alg": alg, "kid": "1", "typ": "JWT"})
	content, _ := json.Marshal(claims)
	text := encode(head) + "." + encode(content)
	if alg == "none" {
		return text + "."
	}
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, signer, crypto.SHA256, sum[:])
	return text + "." + encode(signature)
}

// withProvider configures a provider in the server.
func (w *world) withProvider(p *idProvider, domains ...string) {
	w.t.Helper()
	w.server = New(Options{Control: w.control, Log: slog.New(slog.DiscardHandler), OIDC: &OIDC{Issuer: p.URL, ClientID: "pyro", Secret: secret.New("hidden"), Domains: domains}})
	server := httptest.NewServer(w.server)
	w.t.Cleanup(server.Close)
	w.url = server.URL
}

// follow follows redirects like a browser, until leave returns true for a request. It returns the
// last answer and its text.
func (b *browser) follow(address string, leave func(*http.Request) bool) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), "GET", address, nil)
	b.check(err)
	c := http.Client{Jar: b.jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if leave(r) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r, err := c.Do(req)
	b.check(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	b.check(err)
	return r, string(text)
}

// logIn logs in at the provider. It returns the status and the text of the callback.
func (b *browser) logIn() (int, string) {
	b.t.Helper()
	r, text := b.follow(b.url+oidcPath, func(r *http.Request) bool { return r.URL.Path == "/" })
	return r.StatusCode, text
}

// TestOIDC logs in at a provider: twice as an invited user, and once with an email in a permitted
// domain.
func TestOIDC(t *testing.T) {
	w, p := newWorld(t), newIDProvider(t)
	w.withProvider(p, "example.org")
	invited := w.member("invited", w.team, store.RoleAdmin)
	var me Me
	w.call("invited", "GET", "/v1/me", nil, &me)
	other := w.member("other", w.team, store.RoleViewer)
	var methods Methods
	if got := w.call("none", "GET", "/v1/auth/methods", nil, &methods); got != 200 || methods != (Methods{true, true}) {
		t.Errorf("got %d: %+v", got, methods)
	}
	for _, step := range []struct {
		name         string
		claims, info map[string]any
		status       int
		user         string // empty: a new one
	}{
		{"unknown", map[string]any{"sub": "1", "email": "nobody@example.net", "email_verified": true}, nil, 403, ""},
		{"not verified", map[string]any{"sub": "1", "email": me.Email}, nil, 403, ""},
		{"verified is a text", map[string]any{"sub": "1", "email": me.Email, "email_verified": "false"}, nil, 403, ""},
		{"invited", map[string]any{"sub": "1", "email": me.Email, "email_verified": true}, nil, 303, invited},
		{"again, with another email", map[string]any{"sub": "1", "email": "other@example.net"}, nil, 303, invited},
		{"another account", map[string]any{"sub": "2", "email": me.Email, "email_verified": true}, nil, 409, ""},
		{"information of another user", map[string]any{"sub": "3"}, map[string]any{"sub": "1", "email": "new@example.org", "email_verified": true}, 403, ""},
		{"a new user", map[string]any{"sub": "3"}, map[string]any{"sub": "3", "email": "New@Example.org", "email_verified": "true", "name": "New"}, 303, ""},
	} {
		p.claims, p.info = step.claims, step.info
		b := w.browser()
		got, text := b.logIn()
		if got != step.status {
			t.Errorf("%s: got %d: %s", step.name, got, text)
			continue
		}
		status, text := b.send("GET", "/v1/me", "")
		if step.status != 303 {
			if status != 401 {
				t.Errorf("%s: got a session: %s", step.name, text)
			}
			continue
		}
		var now Me
		if err := json.Unmarshal([]byte(text), &now); err != nil || status != 200 || len(now.Providers) != 1 || now.HasPassword {
			t.Errorf("%s: got %d: %s", step.name, status, text)
		}
		if step.user != "" && now.UserID != step.user || now.UserID == other || step.user == "" && (now.Name != "New" || now.Role != "member" || now.Email != "new@example.org") {
			t.Errorf("%s: got %+v", step.name, now)
		}
	}
	if got := w.call("invited", "GET", "/v1/me", nil, nil); got != 401 {
		t.Errorf("a session from before the first login at the provider: got %d", got)
	}
}

// TestOIDCAttacks checks that the server refuses forged, stolen and replayed answers of a provider.
func TestOIDCAttacks(t *testing.T) {
	w, p := newWorld(t), newIDProvider(t)
	w.withProvider(p, "example.org")
	p.claims = map[string]any{"sub": "1", "email": "a@example.org", "email_verified": true}
	refused := func(name string, got int, b *browser) {
		t.Helper()
		if status, text := b.send("GET", "/v1/me", ""); got == 303 || status != 401 {
			t.Errorf("%s: got %d, and then %d: %s", name, got, status, text)
		}
	}
	for name, damage := range map[string]func(){
		"no signature":       func() { p.alg = "none" },
		"another algorithm":  func() { p.alg = "HS256" },
		"another key":        func() { p.signer = p.other },
		"another nonce":      func() { p.change = func(c map[string]any) { c["nonce"] = rand.Text() } },
		"no nonce":           func() { p.change = func(c map[string]any) { delete(c, "nonce") } },
		"another client":     func() { p.change = func(c map[string]any) { c["aud"] = "other" } },
		"for other clients":  func() { p.change = func(c map[string]any) { c["aud"] = []string{"pyro", "other"}; c["azp"] = "other" } },
		"another issuer":     func() { p.change = func(c map[string]any) { c["iss"] = "https://evil.example" } },
		"expired":            func() { p.change = func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() } },
		"an answer of 2 MiB": func() { p.change = func(c map[string]any) { c["x"] = strings.Repeat("x", 2<<20) } },
	} {
		w.server.logins, w.server.addresses = newLimiter(1e6, 1e6, time.Now), newLimiter(1e6, 1e6, time.Now)
		p.alg, p.signer, p.change = "", nil, nil
		damage()
		b := w.browser()
		got, _ := b.logIn()
		refused(name, got, b)
	}
	p.alg, p.signer, p.change = "", nil, nil

	callback := func(r *http.Request) bool { return r.URL.Path == callbackPath }
	never := func(*http.Request) bool { return true }
	attacker, victim := w.browser(), w.browser()
	r, _ := attacker.follow(w.url+oidcPath, callback)
	answer := r.Header.Get("Location")
	r, _ = victim.follow(answer, never)
	refused("the answer for another browser", r.StatusCode, victim)
	victim.follow(w.url+oidcPath, callback)
	r, _ = victim.follow(answer, never)
	refused("the answer for another login", r.StatusCode, victim)

	b := w.browser()
	r, _ = b.follow(w.url+oidcPath, callback)
	answer = r.Header.Get("Location")
	at, _ := url.Parse(w.url)
	cookies := b.jar.Cookies(at)
	if r, _ = b.follow(answer, never); r.StatusCode != 303 {
		t.Fatalf("got %d", r.StatusCode)
	}
	if c := b.jar.Cookies(at); len(c) != 1 || c[0].Name != cookieName {
		t.Errorf("the cookies are %v", c)
	}
	b.jar, _ = cookiejar.New(nil)
	b.jar.SetCookies(at, cookies)
	r, _ = b.follow(answer, never)
	refused("the same answer again", r.StatusCode, b)
	for name, query := range map[string]string{"no state": "?code=x", "the provider's error": "?error=access_denied&state=", "nothing": ""} {
		b := w.browser()
		if strings.HasPrefix(query, "?error") {
			b.follow(w.url+oidcPath, func(*http.Request) bool { return true })
			query += strings.Split(b.jar.Cookies(at)[0].Value, ".")[0]
		}
		r, text := b.follow(w.url+callbackPath+query, never)
		refused(name, r.StatusCode, b)
		if strings.HasPrefix(query, "?error") && !strings.Contains(text, "access_denied") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestOIDCProviderIsDown checks that a provider can start later than the server.
func TestOIDCProviderIsDown(t *testing.T) {
	w, p := newWorld(t), newIDProvider(t)
	w.withProvider(p, "example.org")
	p.claims = map[string]any{"sub": "1", "email": "a@example.org", "email_verified": true}
	handler := p.Config.Handler
	p.Config.Handler = http.NotFoundHandler()
	if got, text := w.browser().logIn(); got != 503 || !strings.Contains(text, "does not answer") {
		t.Errorf("got %d: %s", got, text)
	}
	p.Config.Handler = handler
	if got, text := w.browser().logIn(); got != 303 {
		t.Errorf("got %d: %s", got, text)
	}
	w = newWorld(t)
	if r, _ := w.browser().follow(w.url+oidcPath, func(*http.Request) bool { return true }); r.StatusCode != 404 {
		t.Errorf("without a provider: got %d", r.StatusCode)
	}
}
