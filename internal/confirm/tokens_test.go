package confirm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// asRedeemer is an environment variable. If it is set, the test binary redeems the tokens in its
// input and prints those that it redeemed.
const asRedeemer = "DANGER_TEST_REDEEM_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asRedeemer); dir != "" {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			switch err := (Tokens{Dir: dir}).Redeem(lines.Text(), request); {
			case err == nil:
				fmt.Println(lines.Text())
			case !errors.Is(err, ErrUsed):
				fmt.Println("error:", err)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var request = Request{Command: "rm -rf /tmp/demo", Owner: "release-bot", Scope: "admin", Justification: "cleanup temp data"}

func issue(t *testing.T, tokens Tokens, r Request) string {
	t.Helper()
	began := time.Now()
	token, expires, err := tokens.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^dc_[0-9a-f]{32}$`).MatchString(token) || !expires.After(began) {
		t.Fatalf("token %q until %v", token, expires)
	}
	return token
}

func TestTokens(t *testing.T) {
	tokens := Tokens{Dir: filepath.Join(t.TempDir(), "a", "b")}
	began := time.Now()
	token, expires, err := tokens.Issue(request)
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 300 * time.Second
	if expires.Before(began.Add(ttl)) || time.Until(expires) > ttl {
		t.Errorf("it was issued at %v until %v", began, expires)
	}
	other := func(change func(*Request)) Request { r := request; change(&r); return r }
	for _, c := range []struct {
		token string
		Request
		want error
	}{
		{"", request, ErrRequired},
		{" \n", request, ErrRequired},
		{"x", request, ErrInvalid},
		{"../" + token, request, ErrInvalid},
		{strings.ToUpper(token), request, ErrInvalid},
		{"dc_" + strings.Repeat("0", 32), request, ErrInvalid},
		{token, other(func(r *Request) { r.Command += "s" }), ErrCommand},
		{token, other(func(r *Request) { r.Command = "" }), ErrCommand},
		{token, other(func(r *Request) { r.Owner = "" }), ErrOwner},
		{token, other(func(r *Request) { r.Scope = "" }), ErrScope},
		{token, other(func(r *Request) { r.Command, r.Justification = "\n "+r.Command+"\t", "" }), nil},
		{token, request, ErrUsed},
		{token, other(func(r *Request) { r.Command = "x" }), ErrUsed},
	} {
		if err := (Tokens{Dir: tokens.Dir}).Redeem(c.token, c.Request); err != c.want && !errors.Is(err, c.want) {
			t.Errorf("%q for %+v: %v, want %v", c.token, c.Request, err, c.want)
		}
	}
	anywhere := issue(t, tokens, other(func(r *Request) { r.Scope = "" }))
	if err := tokens.Redeem(anywhere, request); err != nil {
		t.Errorf("a token without a scope: %v", err)
	}
}

func TestTokenTexts(t *testing.T) {
	for err, want := range map[*fault.Error]string{
		ErrRequired: "confirmation token required", ErrInvalid: "confirmation token invalid or expired", ErrUsed: "confirmation token already used",
		ErrCommand: "confirmation token command mismatch", ErrOwner: "confirmation token owner mismatch", ErrScope: "confirmation token scope mismatch",
	} {
		if err.Error() != want || fault.KindOf(err) != fault.Permission || fault.HintOf(err) == "" {
			t.Errorf("%v", err)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	for want, r := range map[string]Request{
		"command is required":    {Command: " ", Justification: "x"},
		"justification required": {Command: "x", Justification: " "},
		"longer than":            {Command: strings.Repeat("x", maxRequest+1), Justification: "x"},
	} {
		if _, _, err := (Tokens{Dir: dir}).Issue(r); err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was not removed")
	}
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if _, _, err := (Tokens{Dir: file}).Issue(request); err == nil {
		t.Error("no error for a directory that is a file")
	}
	if err := (Tokens{Dir: file}).Redeem("dc_"+strings.Repeat("0", 32), request); err == nil {
		t.Error("no error for a directory that is a file")
	}
}

// TestDirectoryIsSecret checks that the directory contains neither tokens nor requests, and that
// only its owner can read it.
func TestDirectoryIsSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tokens")
	token := issue(t, Tokens{Dir: dir}, request)
	info, _ := os.Stat(dir)
	if info.Mode().Perm() != 0o700 {
		t.Error(info.Mode())
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, _ := os.ReadFile(files[0])
	info, _ = os.Stat(files[0])
	for _, secret := range []string{token, token[3:], token[3:19], "rm -rf", "release-bot", "admin", "cleanup"} {
		if strings.Contains(files[0]+string(b), secret) {
			t.Errorf("%q is in %s: %s", secret, files[0], b)
		}
	}
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
}

func TestTokensExpireAndAreSwept(t *testing.T) {
	tokens := Tokens{Dir: t.TempDir(), TTL: time.Second}
	foreign := filepath.Join(tokens.Dir, "foreign")
	orphan := filepath.Join(tokens.Dir, tempPrefix+"1")
	for _, f := range []string{foreign, orphan} {
		os.WriteFile(f, nil, 0o600)
	}
	lapsed, spent := issue(t, tokens, request), issue(t, Tokens{Dir: tokens.Dir, TTL: time.Minute}, request)
	if err := tokens.Redeem(spent, request); err != nil {
		t.Fatal(err)
	}
	time.Sleep(tokens.TTL)
	if err := tokens.Redeem(lapsed, request); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	issue(t, tokens, request)
	files, _ := filepath.Glob(filepath.Join(tokens.Dir, "*"))
	if len(files) != 3 { // the new token, the used token and the unrelated file
		t.Error(files)
	}
	if _, err := os.Stat(orphan); err == nil {
		t.Error("the file of a killed writer still exists")
	}
	if err := tokens.Redeem(spent, request); !errors.Is(err, ErrUsed) {
		t.Error(err)
	}
}

func TestTokensAreBounded(t *testing.T) {
	tokens := Tokens{Dir: t.TempDir(), TTL: time.Minute}
	for i := range MaxTokens {
		name := filepath.Join(tokens.Dir, fileName(fmt.Sprint(i)))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(name, time.Time{}, time.Now().Add(time.Minute))
	}
	if _, _, err := tokens.Issue(request); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	os.Remove(filepath.Join(tokens.Dir, fileName("0")))
	issue(t, tokens, request)
}

func TestDamagedTokens(t *testing.T) {
	tokens := Tokens{Dir: t.TempDir()}
	for _, damage := range []string{"", "{", "null", `{"token":""}`, strings.Repeat("x", 1<<20)} {
		token := issue(t, tokens, request)
		name := filepath.Join(tokens.Dir, fileName(token))
		os.WriteFile(name, []byte(damage), 0o600)
		if err := tokens.Redeem(token, request); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", damage, err)
		}
	}
	token := issue(t, tokens, request)
	name := filepath.Join(tokens.Dir, fileName(token))
	os.Remove(name)
	os.Mkdir(name, 0o700)
	if err := tokens.Redeem(token, request); err == nil || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestOneGoroutineRedeems(t *testing.T) {
	tokens := Tokens{Dir: t.TempDir()}
	for range 20 {
		token := issue(t, tokens, request)
		var won, lost int
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				err := tokens.Redeem(token, request)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case errors.Is(err, ErrUsed):
					lost++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won != 1 || lost != 15 {
			t.Fatalf("%d won, %d lost", won, lost)
		}
	}
}

// TestOneProcessRedeems lets processes compete for many tokens and kills some of them
// midway. It checks that no token is redeemed twice. A process can be killed after it redeems a
// token and before it prints the token.
func TestOneProcessRedeems(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tokens := Tokens{Dir: t.TempDir()}
	var list []string
	for range 150 {
		list = append(list, issue(t, tokens, request))
	}
	const processes = 6
	outputs := make([]strings.Builder, processes)
	var all sync.WaitGroup
	for i := range processes {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), asRedeemer+"="+tokens.Dir)
		cmd.Stdin, cmd.Stdout = strings.NewReader(strings.Join(list, "\n")+"\n"), &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			time.AfterFunc(time.Duration(20+10*i)*time.Millisecond, func() { cmd.Process.Kill() })
		}
		all.Go(func() { cmd.Wait() })
	}
	all.Wait()
	times := map[string]int{}
	for i := range outputs {
		for line := range strings.Lines(outputs[i].String()) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "error") {
				t.Error(line)
			}
			times[line]++
		}
	}
	redeemed := 0
	for _, token := range list {
		if redeemed += times[token]; times[token] > 1 {
			t.Errorf("%s was redeemed %d times", token, times[token])
		}
		if err := tokens.Redeem(token, request); !errors.Is(err, ErrUsed) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if redeemed < len(list)-2 {
		t.Errorf("%d of %d were redeemed and printed", redeemed, len(list))
	}
}

// TestConcurrentIssueAndRedeem checks that Issue and Redeem are safe for concurrent use.
func TestConcurrentIssueAndRedeem(t *testing.T) {
	tokens := Tokens{Dir: t.TempDir()}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				token, _, err := tokens.Issue(request)
				if err != nil {
					t.Error(err)
					return
				}
				if err := tokens.Redeem(token, request); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
