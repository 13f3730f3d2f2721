package danger

import (
	"runtime"
	"strings"
	"testing"
)

// TestMemory checks that the check allocates little memory for every command.
func TestMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates memory itself")
	}
	const most = 192 << 20
	long := strings.Repeat("a", 30<<10)
	commands := []string{
		"printf '" + strings.Repeat("%999999s", 7000) + "' x | sh",
		"printf '%*s' 999999999 x",
		"printf '%.99999999d' 1",
		"echo {1..999999}", "echo {1..16000}{1..16000}", "echo {a,{b,{c,d}}}{1..9999}{1..9999}",
		"x={1..9999}; eval echo $x$x",
		"y=" + long + "; x=" + long + "; echo ${x//a/$y}",
		"x=" + long + "; echo " + strings.Repeat("$x", 10000),
		"x=" + long + ";" + strings.Repeat("x=$x$x;", 1000),
		"x=" + long + "; a=(" + strings.Repeat("$x ", 900) + "); echo " + strings.Repeat(`"${a[*]}"`, 90),
		"x=" + long + "; set -- " + strings.Repeat("$x ", 900) + "; echo " + strings.Repeat(`"$*"`, 90),
		"x=" + long[:9000] + "; " + strings.Repeat("echo $x | cat | cat | tee y;", 900),
		"x=" + long + "; cat <<E\n" + strings.Repeat("$x", 10000) + "\nE\n",
		"yes | xargs -I{} echo " + strings.Repeat("{}", 10000),
		"echo " + long + " | xargs -I{} echo " + strings.Repeat("{}", 9000),
		`echo $((` + strings.Repeat("(", 700) + "1" + strings.Repeat(")", 700) + "))",
		`x=${y:-` + long + `}; f() { f "$@" "$@"; }; f $x $x $x`,
	}
	for _, unit := range units {
		for _, before := range []string{"", "python -c '", `rm -rf "`, "echo "} {
			commands = append(commands, before+strings.Repeat(unit, (MaxCommand-len(before))/len(unit)))
		}
	}
	r := rules(t, "")
	for _, command := range commands {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took := busy(func() { r.Check(command, Start{Cwd: "/"}) })
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%.40q… (%d bytes) allocates %d MiB", command, len(command), used>>20)
		} else if testing.Verbose() && used > most/4 {
			t.Logf("%.40q… (%d bytes) allocates %d MiB", command, len(command), used>>20)
		}
		if took > slow {
			t.Errorf("%.40q… (%d bytes) takes %v", command, len(command), took)
		}
	}
}
