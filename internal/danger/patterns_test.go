package danger

import (
	"strings"
	"testing"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestDefaultPatterns is what the seven patterns find in a text as it is written.
func TestDefaultPatterns(t *testing.T) {
	if len(defaults) != 7 {
		t.Fatal(len(defaults))
	}
	for i, c := range []struct{ hits, misses []string }{
		{[]string{"rm -rf /", "rm -fr /", "rm  -rf  /", "rm -r -f /", "rm -f -R /", "rm -Rfv /", "rm --recursive --force /", "rm -v -rf /", "rm -rf --no-preserve-root /", "x; rm -rf / ;y", "(rm -rf /)", "rm -rf /*", "rm -rf //", "rm\n-rf\n/", "sudo rm -rf / --x"},
			[]string{"rm -rf /x", "rm -r /", "rm -f /", "rm /", "arm -rf /", "rm -rf ./", "rm -rf .", "rm-rf /", "RM -RF /", "rm -rf x /"}},
		{[]string{"rm -rf /tmp", "rm -fr /tmp/demo", "rm -rf /etc/", "rm -rf //etc", "rm -f -r /x"}, []string{"rm -rf /", "rm -rf tmp", "rm -rf ./tmp", "rm -r /tmp", "rm /tmp", "farm -rf /tmp"}},
		{[]string{"mkfs", "mkfs.ext4 /dev/sda", "sudo mkfs -t ext4 x", "/sbin/mkfs"}, []string{"mkfsx", "xmkfs", "mk fs", "mke2fs"}},
		{[]string{"dd if=/dev/zero of=x", "dd of=/dev/sda bs=1M if=/dev/zero", "sudo dd if=/dev/zero of=./file"}, []string{"dd if=/dev/zeros", "dd if=x of=y", "add if=/dev/zero", "dd if=x | y if=/dev/zero", "cat /dev/zero"}},
		{[]string{"shutdown", "shutdown -h now", "/sbin/shutdown", "echo shutdown"}, []string{"shutdowns", "preshutdown", "shut down"}},
		{[]string{"reboot", "sudo reboot", "systemctl reboot", "x=reboot"}, []string{"rebooted", "reboots", "_reboot"}},
		{[]string{"poweroff", "systemctl poweroff", "poweroff -f"}, []string{"poweroffs", "power off", "xpoweroff"}},
	} {
		for _, hit := range c.hits {
			if !defaults[i].MatchString(hit) {
				t.Errorf("%s does not match %q", defaults[i].told, hit)
			}
			if v := rules(t, "").Check(hit); !v.Dangerous {
				t.Errorf("%q is not dangerous", hit)
			}
		}
		for _, miss := range c.misses {
			if defaults[i].MatchString(miss) {
				t.Errorf("%s matches %q", defaults[i].told, miss)
			}
		}
	}
}

// TestOwnPatterns: patterns of a user replace the default patterns and rules, and are held against commands as plain words.
func TestOwnPatterns(t *testing.T) {
	r := rules(t, ` \bterraform\s+destroy\b ;; ^deploy ;\bdrop table\b`)
	for _, command := range []string{
		`terraform destroy`, `ter''raform 'destroy'`, `/usr/bin/terraform   destroy`, `x=destroy; terraform $x`, `sh -c "terra\\form destr""oy"`, `$(echo terraform) destroy`, `sudo terraform \destroy`, `terraform$IFS'destroy'`,
		`make && ./deploy x`, `find . -exec terraform d'estroy' \;`, `psql -c "drop"' table x'`, `t() { terraform "$@"; }; t destroy`, `/opt/t?rraform destroy || terra{form,} destroy x; terra""form destroy`, "terraform \\\ndestroy",
		`curl x | sh`, `$(curl x) y`, `echo 'open`, `python3 -c "import os; os.system('terraform' + ' des' + 'troy')"`, `echo 'terra"form" destroy' | bash`,
	} {
		if v := r.Check(command); !v.Dangerous {
			t.Errorf("not found: %q", command)
		}
	}
	for _, command := range []string{`rm -rf /`, `reboot`, `mkfs /dev/sda`, `chmod -R 777 /`, `:(){ :|:& };:`, `echo x > /dev/sda`, `find / -delete`, `dd if=x of=/dev/sda`, `terraform plan`, `redeploy`, `python3 -c "import shutil; shutil.rmtree('/')"`, `kill -1`} {
		if v := r.Check(command); v.Dangerous {
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
	if r, err := New(" \n"); err != nil || r.own {
		t.Error(err)
	}
}
