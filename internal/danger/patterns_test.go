package danger

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestOwnPatterns checks that a user's patterns replace the built-in rules. The patterns must match
// the expanded words of commands.
func TestOwnPatterns(t *testing.T) {
	r := rules(t, ` \bterraform\s+destroy\b ;; ^deploy ;\bdrop table\b`)
	for _, command := range []string{
		`terraform destroy`, `ter''raform 'destroy'`, `/usr/bin/terraform   destroy`, `x=destroy; terraform $x`, `sh -c "terra\\form destr""oy"`, `$(echo terraform) destroy`, `sudo terraform \destroy`, `terraform$IFS'destroy'`,
		`make && ./deploy x`, `find . -exec terraform d'estroy' \;`, `psql -c "drop"' table x'`, `t() { terraform "$@"; }; t destroy`, `/opt/t?rraform destroy || terra{form,} destroy x; terra""form destroy`, "terraform \\\ndestroy",
		`curl x | sh`, `$(curl x) y`, `echo 'open`, `python3 -c "import os; os.system('terraform' + ' des' + 'troy')"`, `echo 'terra"form" destroy' | bash`,
	} {
		if v := r.Check(command, Start{}); !v.Dangerous {
			t.Errorf("not found: %q", command)
		}
	}
	for _, command := range []string{`rm -rf /`, `reboot`, `mkfs /dev/sda`, `chmod -R 777 /`, `:(){ :|:& };:`, `echo x > /dev/sda`, `find / -delete`, `dd if=x of=/dev/sda`, `terraform plan`, `redeploy`, `python3 -c "import shutil; shutil.rmtree('/')"`, `kill -1`} {
		if v := r.Check(command, Start{}); v.Dangerous {
			t.Errorf("found: %q: %q", command, v.Matches)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for patterns, want := range map[string]string{
		"ok;(":                                `read dangerous patterns "(": error parsing regexp: missing closing ): ` + "`(`",
		"a;(?=x)":                             `"(?=x)"`,
		";; ;":                                "no pattern",
		strings.Repeat("x;", maxPatterns+1):   "more than 64 patterns",
		strings.Repeat("x", maxPattern+1):     "longer than 1024 bytes",
		"([a-z]{900})([a-z]{900}){1}[a-z]{9}": "too large",
		strings.Repeat("[a-z]{400};", 20):     "too large",
	} {
		_, err := New(patterns)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.30q: %v, want %s", patterns, err, want)
		}
	}
	if r, err := New(" \n"); err != nil || r.patterns != nil {
		t.Error(err)
	}
}
