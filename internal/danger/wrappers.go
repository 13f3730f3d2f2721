package danger

import (
	"slices"
	"strings"
)

// wrapper is a program that runs another, which its arguments name.
type wrapper struct {
	valued   string // its short options that take a value
	operands int    // what comes before the command
	joined   bool   // a shell runs the rest, joined by blanks
	code     string // its short options whose value a shell runs
}

var wrappers = map[string]wrapper{
	"sudo": {valued: "CDghpRrTtUu"}, "doas": {valued: "Cu"}, "pkexec": {}, "env": {valued: "uCa", code: "S"}, "command": {}, "builtin": {}, "exec": {valued: "a"},
	"nohup": {}, "nice": {valued: "n"}, "ionice": {valued: "cnpPu"}, "chrt": {valued: "TPDp", operands: 1}, "taskset": {operands: 1}, "timeout": {valued: "ks", operands: 1},
	"time": {valued: "fo"}, "setsid": {}, "stdbuf": {valued: "ioe"}, "unbuffer": {}, "watch": {valued: "nqs", joined: true}, "busybox": {}, "toybox": {},
	"su": {valued: "gGsw", operands: 1, code: "c"}, "runuser": {valued: "gGsuw", code: "c"}, "script": {valued: "BEIOTmo", operands: 1, code: "c"},
	"flock": {valued: "wE", operands: 1, code: "c"}, "chroot": {operands: 1}, "unshare": {valued: "SGRw"}, "nsenter": {valued: "tSGrw"}, "setpriv": {}, "prlimit": {},
	"strace": {valued: "aAbeEIoOpPsSuUX"}, "ltrace": {valued: "aAeDFlnopsuwx"}, "valgrind": {}, "fakeroot": {valued: "lisb"}, "proot": {valued: "rbqwkv"}, "firejail": {}, "bwrap": {},
	"systemd-run": {valued: "HMupE"}, "systemd-inhibit": {}, "cgexec": {valued: "g"}, "numactl": {valued: "iNCmpP"}, "dbus-run-session": {}, "xvfb-run": {valued: "efnps"},
	"tini": {valued: "pe"}, "dumb-init": {}, "catchsegv": {}, "caffeinate": {valued: "tw"}, "rlwrap": {valued: "bcCDfgHlmMopPqsStz"}, "eatmydata": {}, "setarch": {operands: 1},
	"linux32": {}, "linux64": {}, "ssh": {valued: "BbcDEeFIiJLlmOopQRSWw", operands: 1, joined: true}, "entr": {}, "noglob": {}, "nocorrect": {}, "sg": {operands: 1, code: "c"},
	"parallel": {}, "xargs": {}, "start-stop-daemon": {valued: "xapngucrdkNPISs"}, "gdb": {}, "torsocks": {}, "proxychains": {},
}

func (w wrapper) look(c *checker, args []string, in input) (out []string) {
	switch args[0] {
	case "xargs":
		return xargs(c, args, in)
	case "parallel":
		return parallel(c, args, in)
	case "command":
		if len(args) > 2 && (args[1] == "-v" || args[1] == "-V") {
			return which(c, args[1:], in)
		}
	}
	for _, code := range w.codes(args) {
		out = add(out, c.texts([]string{code}, nil, in, args[0])...)
	}
	for _, rest := range w.commands(args) {
		if w.joined && len(rest) > 0 {
			out = add(out, c.texts([]string{strings.Join(rest, " ")}, nil, in, args[0])...)
		} else {
			out = add(out, c.command(rest, in)...)
		}
	}
	if len(out) == 0 && in.piped && (args[0] == "su" || args[0] == "sudo" && slices.ContainsFunc(args, func(a string) bool { return a == "-s" || a == "-i" }) || args[0] == "ssh" && len(args) == 2) {
		return c.texts(in.values, nil, input{}, "what comes to "+args[0])
	}
	if len(out) == 0 {
		return unknown
	}
	return out
}

// commands gives the command that a wrapper runs: what follows its options and operands. There may be several candidates, as nobody knows
// all long options that take a value.
func (w wrapper) commands(args []string) (all [][]string) {
	operands := w.operands
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--" && operands == 0:
			return append(all, args[i+1:])
		case a == "--":
		case strings.HasPrefix(a, "--"):
			if !strings.Contains(a, "=") && operands == 0 && i+2 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				all = append(all, args[i+1:])
				i++
			}
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			if at := strings.IndexAny(a[1:], w.valued+w.code); at >= 0 && at == len(a)-2 {
				i++
			}
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, "="): // NAME=VALUE, or no command at all
		case operands > 0:
			operands--
		default:
			return append(all, args[i:])
		}
	}
	return all
}

// codes gives what a shell runs of a wrapper's options: su -c CODE, env -S CODE.
func (w wrapper) codes(args []string) (all []string) {
	for i := 1; i < len(args); i++ {
		a := known(args[i])
		name, value, inOne := strings.Cut(a, "=")
		switch {
		case w.code == "" || len(a) < 2 || a[0] != '-':
			continue
		case name == "--command" || name == "--split-string" || name == "--session-command":
			if !inOne && i+1 < len(args) {
				value = args[i+1]
			}
		case a[1] == '-':
			continue
		default:
			at := strings.IndexAny(a, w.code)
			if at < 0 {
				continue
			}
			if value = a[at+1:]; value == "" && i+1 < len(args) {
				value = args[i+1]
			}
		}
		if w.code == "S" { // the rest are arguments of what the string names
			return append(all, value+" "+quote(args[min(len(args), i+1):]), value+" "+quote(args[min(len(args), i+2):]))
		}
		all = append(all, value)
	}
	return all
}

// xargs looks at the command that xargs makes of what it reads.
func xargs(c *checker, args []string, in input) (out []string) {
	replace, file := "", false
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-i" || a == "--replace":
			replace = "{}"
		case strings.HasPrefix(a, "-I"):
			if replace = a[2:]; replace == "" && i+1 < len(args) {
				replace = args[i+1]
			}
		case a == "-a" || strings.HasPrefix(a, "--arg-file"):
			file = true
		case !strings.HasPrefix(a, "-"):
			i = len(args)
		}
	}
	values := in.values
	if !in.piped || file {
		values = unknown
	}
	for _, rest := range (wrapper{valued: "IadEeLlnPs"}).commands(args) {
		for _, v := range values {
			items := strings.FieldsFunc(v, func(r rune) bool { return r <= ' ' && r != anyEnv && r != anyMade && r != anyText && r != anyByte })
			if len(items) > maxWords {
				items = unknown
			}
			if replace == "" {
				out = add(out, c.command(slices.Concat(rest, items), input{})...)
				continue
			}
			for _, item := range items {
				out = add(out, c.command(replaced(rest, replace, item), input{})...)
			}
		}
	}
	if len(out) == 0 {
		return values
	}
	return out
}

// replaced puts an item into the words of a command.
func replaced(list []string, mark, item string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], mark, item)
	}
	return list
}

// parallel looks at GNU parallel, which gives what it makes to a shell.
func parallel(c *checker, args []string, in input) []string {
	items := in.values
	if !in.piped {
		items = nil
	}
	for i, a := range args {
		if strings.HasPrefix(a, ":::") {
			items, args = []string{strings.Join(args[i+1:], " ")}, args[:i]
			break
		}
	}
	rest := (wrapper{valued: "jaINnLPsS"}).commands(args)
	if len(rest) == 0 {
		return c.texts(items, nil, input{}, "what comes to parallel")
	}
	for _, command := range rest {
		for _, item := range append(items, "") {
			text := strings.Join(command, " ")
			if strings.Contains(text, "{}") {
				text = strings.ReplaceAll(text, "{}", item)
			} else {
				text += " " + item
			}
			c.texts([]string{text}, nil, input{}, "parallel")
		}
	}
	return unknown
}
