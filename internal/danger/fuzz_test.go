package danger

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/syntax"
)

// slow is the maximum CPU time per input under the race detector, on a slow host. TestTime has the
// limit without the race detector.
const slow = 16 * time.Second

// busy returns the CPU time of f. The load of the host changes it less than the time on a clock.
func busy(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

func FuzzCheck(f *testing.F) {
	for _, name := range []string{"disguised.txt", "ordinary.txt"} {
		for _, r := range table(f, name) {
			f.Add(r.line)
		}
	}
	f.Add("A<<0\n0") // the parser returns no word for an empty here-document
	r, own := rules(f, ""), rules(f, `\brm\b;x.*y`)
	f.Fuzz(func(t *testing.T, command string) {
		for _, r := range []*Rules{r, own} {
			var v Verdict
			if d := busy(func() { v = r.Check(command, Start{Cwd: "/"}) }); d > slow {
				t.Errorf("took %v", d)
			}
			for _, m := range v.Matches {
				if m == "cannot be checked: an internal error of the check" {
					t.Error("a fault")
				}
			}
			if v.Harmful && !v.Dangerous || v.Dangerous != (len(v.Matches) > 0) || len(v.Matches) > maxMatches {
				t.Errorf("%+v", v)
			}
		}
	})
}

// FuzzLong is like FuzzCheck, but for a text that is repeated up to MaxCommand.
func FuzzLong(f *testing.F) {
	times, few := uint16(1000), uint16(10)
	if raced {
		times, few = 100, 3
	}
	for _, unit := range units {
		f.Add(unit, "", times)
	}
	for _, name := range []string{"disguised.txt", "ordinary.txt"} {
		for _, r := range table(f, name) {
			f.Add(r.line+"\n", "", few)
		}
	}
	r := rules(f, "")
	f.Fuzz(func(t *testing.T, unit, end string, times uint16) {
		if unit == "" || len(unit)+len(end) > 4000 {
			return
		}
		n := min(int(times), (MaxCommand-len(end))/len(unit))
		var v Verdict
		if d := busy(func() { v = r.Check(strings.Repeat(unit, n)+end, Start{}) }); d > slow {
			t.Errorf("%q %d times took %v", unit, n, d)
		}
		for _, m := range v.Matches {
			if m == "cannot be checked: an internal error of the check" {
				t.Error("a fault")
			}
		}
	})
}

// units contains texts that take a lot of work if they are repeated.
var units = []string{"$(", "(", "((", "$((", "$[", "`", "{", "{a,b}", "{1..20}", "${a:-", `"$(`, "if ", "while ", "! ", "a|", "a&&", "a;", "<<a\n", "<<a;", "a[", "${a[", "${a/", "eval ", "sudo ", "f(){ f; };", "x=$x$x;", "x=(${x[@]} a);", "'", `"`, `\`, "*", "\n", "a ", "x+=a;",
	"echo a|", "$x", "$x ", "for i in a;do ", "case a in a)", "x=a;x=b;x=c;$x$x$x$x;", "sh -c 'sh -c a';", "find -exec ", "xargs ", "python -c \"'a'\";", "'a' ", "rm $x ", "${x#*a}", "printf %s%s%s a;", "(a);", "$(a)", "((1));", "<(a)", "trap a b;", "alias a=b;a;", "set -- a;$@;", "read x <<<a;", "~", "[[ a ]];",
	"x=a*b*c*;${x#$x};", "[a-", "${x//a/b}", "\x01", "\x02 ", "a=b ", "a=b c;", "cat <<a\nb\na\n", "rm -a ", "git -c a ", "a run b ", "{a,{b,c}}", "é", "\xff"}

// TestTime checks the CPU time for repeated units. The limit has a margin for slow hosts.
func TestTime(t *testing.T) {
	if raced {
		t.Skip("times have no meaning under the race detector")
	}
	r := rules(t, "")
	for _, unit := range units {
		for _, before := range []string{"", "python -c '", `rm -rf "`, "echo "} {
			command := before + strings.Repeat(unit, (MaxCommand-len(before))/len(unit))
			best := time.Hour
			for range 2 {
				if best = min(best, busy(func() { r.Check(command, Start{Cwd: "/"}) })); best < 100*time.Millisecond {
					break
				}
			}
			if best > 500*time.Millisecond {
				t.Errorf("%q and %q again and again: %v", before, unit, best)
			}
			if testing.Verbose() && best > 40*time.Millisecond {
				fmt.Printf("%q and %q: %v\n", before, unit, best)
			}
		}
	}
}

// FuzzQuoted checks that a dangerous command is still dangerous if its letters are quoted.
func FuzzQuoted(f *testing.F) {
	for i := range plain {
		for seed := range uint64(12) {
			f.Add(i, seed)
		}
	}
	r := rules(f, "")
	f.Fuzz(func(t *testing.T, which int, seed uint64) {
		random := rand.New(rand.NewPCG(seed, uint64(which)))
		words := plain[uint(which)%uint(len(plain))]
		var b strings.Builder
		for i, w := range words {
			if i > 0 {
				b.WriteString([]string{" ", "\t", " \\\n", "  ", `$IFS""`, "${IFS}"}[random.IntN(4+2*min(1, random.IntN(3)))])
			}
			b.WriteString(disguised(random, w))
		}
		command := wrapped(random, b.String())
		if v := r.Check(command, Start{Cwd: "/"}); !v.Dangerous {
			t.Errorf("not found: %q", command)
		}
	})
}

// plain contains dangerous commands as lists of words.
var plain = [][]string{{"rm", "-rf", "/"}, {"rm", "-r", "-f", "/etc"}, {"reboot"}, {"shutdown", "-h", "now"}, {"mkfs.ext4", "/dev/sda1"}, {"dd", "if=/dev/zero", "of=x"}, {"chmod", "-R", "777", "/"}, {"/sbin/poweroff"},
	{"kill", "-9", "-1"}, {"mv", "/usr", "/dev/null"}, {"wipefs", "-a", "/dev/sdb"}, {"sudo", "-u", "root", "rm", "-fr", "/home"}, {"find", "/", "-delete"}, {"crontab", "-r"}, {"tee", "/etc/passwd"}}

// disguised returns one of many equivalent spellings of a word.
func disguised(random *rand.Rand, word string) string {
	var b strings.Builder
	for _, letter := range []byte(word) {
		l := string(letter)
		switch random.IntN(12) {
		case 0:
			l = "'" + l + "'"
		case 1:
			l = `"` + l + `"`
		case 2:
			l = `\` + l
		case 3:
			l = fmt.Sprintf(`$'\x%02x'`, letter)
		case 4:
			l = fmt.Sprintf(`$'\%03o'`, letter)
		case 5:
			l += "''"
		case 6:
			l = `""` + l
		case 7:
			l = "\\\n" + l
		case 8:
			l = "$(echo " + quoted([]string{l}) + ")"
		case 9:
			l = "${nothing:+x}${X:-" + l + "}"
		}
		b.WriteString(l)
	}
	return b.String()
}

// quoted joins words, quoted so that a shell reads the same words.
func quoted(words []string) (text string) {
	for _, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			panic(err)
		}
		text += q + " "
	}
	return text
}

// wrapped returns a command that runs the given command in one of many ways.
func wrapped(random *rand.Rand, command string) string {
	for i := range random.IntN(3) {
		kind := random.IntN(14)
		if i > 0 && (kind == 2 || kind == 12) { // these kinds need a simple command
			kind = 3
		}
		switch kind {
		case 0:
			command = "sh -c " + quoted([]string{command})
		case 1:
			command = "eval " + quoted([]string{command})
		case 2:
			command = "env A=b " + command
		case 3:
			command = "true && { " + command + "\n}"
		case 4:
			command = "echo $(" + command + ")"
		case 5:
			command = fmt.Sprintf("bash <<'E%d'\n%s\nE%d\n", i, command, i)
		case 6:
			command = "f() { " + command + "\n}; f"
		case 7:
			command = "echo " + quoted([]string{command}) + " | bash"
		case 8:
			command = "if ls; then (" + command + "); fi"
		case 9:
			command = "ls\n" + command
		case 10:
			command = "cat <(" + command + ")"
		case 11:
			command = "c=" + quoted([]string{command}) + "; eval \"$c\""
		case 12:
			command = "find . -exec " + command + " ';'"
		case 13:
			command = "printf '%s' " + quoted([]string{command}) + " > s.sh; sh ./s.sh"
		}
	}
	return command
}

// FuzzType types arbitrary bytes in pieces. The check must not panic, and the state must not grow
// without limit. For plain text, the verdict must not depend on the pieces.
func FuzzType(f *testing.F) {
	for _, r := range table(f, "disguised.txt") {
		f.Add(r.line+"\n", uint8(3))
	}
	f.Add("\x1b[200~a\nb\x1b[201~\x7f\x15\x17\x1b[A\x16\n\t\r", uint8(1))
	r := rules(f, "")
	f.Fuzz(func(t *testing.T, text string, piece uint8) {
		if len(text) > 8<<10 {
			return
		}
		var pieces, once Typed
		var v Verdict
		var found bool
		took := busy(func() {
			for rest := text; rest != ""; {
				n := min(max(1, int(piece)), len(rest))
				var v Verdict
				pieces, v = r.Type(pieces, Start{}, []byte(rest[:n]))
				found, rest = found || v.Dangerous, rest[n:]
			}
			once, v = r.Type(Typed{}, Start{}, []byte(text))
		})
		if found != v.Dangerous && v.Harmful || pieces != once && v.Harmful {
			t.Errorf("in pieces of %d: %v and %+v, at once: %v and %+v", piece, found, pieces, v.Dangerous, once)
		}
		if len(once.Earlier) > maxEarlier || len(once.Pending)+len(once.Line) > MaxCommand || len(once.Escape) > maxEscape {
			t.Errorf("the state is too large: %+v", once)
		}
		if took > 5*slow {
			t.Errorf("took %v", took)
		}
	})
}
