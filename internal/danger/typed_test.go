package danger

import (
	"strings"
	"testing"
)

// typed types texts one after another, confirms what is dangerous, and gives the index of each that was.
func typed(r *Rules, t Typed, texts ...string) (dangerous []int, last Verdict) {
	for i, text := range texts {
		if t, last = r.Type(t, []byte(text)); last.Dangerous {
			dangerous = append(dangerous, i)
		}
	}
	return dangerous, last
}

func TestTyped(t *testing.T) {
	r := rules(t, "")
	for name, texts := range map[string][]string{
		"one line":                    {"r''m -rf /\n"},
		"carriage return":             {"r''m -rf /\r"},
		"pieces":                      {"r", "''m -r", "f /", "\r"},
		"backspace":                   {"rx\x7fm -rf /\n"},
		"backspace of more bytes":     {"ré\bm -rf /\n"},
		"killed and typed anew":       {"ls \x15r''m -rf /\n"},
		"a word removed":              {"r''m -rf ./x \x17/\n"},
		"second of two lines":         {"ls\nr''m -rf /\n"},
		"continued":                   {"r\\\n", "m -rf /\n"},
		"open quote":                  {"r'\n", "'m; r''m -rf /\n"},
		"here-document for a shell":   {"sh <<E\n", "r''m -rf /\n", "E\n"},
		"in a function":               {"f() {\n", "r''m -rf \"$1\"\n", "}\n", "f /\n"},
		"function from before":        {"f() { r''m -rf \"$1\"; }\n", "f /\n"},
		"variable from before":        {"a=re\n", "b=boot\n", "$a$b\n"},
		"alias from before":           {"alias x='re\"\"boot'\n", "x\n"},
		"folder from before":          {"cd /\n", "rm -rf *\n"},
		"file from before":            {"echo 'r\"m\" -rf /' > x\n", "sh x\n"},
		"pasted":                      {"\x1b[200~r''m -rf /\x1b[201~\n"},
		"pasted lines":                {"\x1b[200~ls\nr''m -rf /\nls\x1b[201~", "\n"},
		"pasted in pieces":            {"\x1b[2", "00~r''m", " -rf /", "\x1b[20", "1~", "\r"},
		"pasted, then joined":         {"\x1b[200~r\n\x1b[201~", "\x7fm -rf /\n"},
		"pasted, then killed":         {"\x1b[200~echo '\n\x1b[201~", "\x15", "r''m -rf /\n"},
		"quoted key":                  {"r''m\x16\t-rf /\n"},
		"history":                     {"\x1b[A\n"},
		"history by key":              {"\x10", "\n"},
		"cursor":                      {"m -rf /\x1b[D\x1b[D\x1bOHr\n"},
		"begin of line":               {"m -rf /\x01r\n"},
		"completion":                  {"mkf\t\n"},
		"search":                      {"\x12rm\r"},
		"meta":                        {"x\x1bb\n"},
		"meta-enter":                  {"ls\x1b\rls\n"},
		"yank":                        {"\x19\n"},
		"history expansion":           {"!!\n"},
		"history expansion by name":   {"sudo !rm\n"},
		"history expansion in quotes": {"echo \"!rm\"\n"},
		"quick substitution":          {"^x^y\n"},
		"operate and get next":        {"r''m -rf /\x0f"},
		"not shell":                   {"ls )\n"},
		"after an interpreter":        {"python3\n", "exit()\n", "r''m -rf /\n"},
		"in an interpreter":           {"python3\n", "import os\n", "os.system('r'+'m -rf /')\n"},
		"in an interpreter, in lines": {"python3 -q\n", "import os\n", "x = 'rm -r'\n", "os.system(x + 'f /')\n"},
		"interpreter that ended":      {"node\n", "r''m -rf /\n"},
		"interrupted":                 {"echo '\n", "\x03", "r''m -rf /\n"},
		"end of input":                {"cat <<E\n", "\x04", "r''m -rf /\n"},
		"escape that ends as text":    {"\x1b[999999999999999999999999999999999999999z", "\n"},
		"line too long":               {strings.Repeat("x", MaxCommand+1)},
		"lines too many":              {strings.Repeat("ls\n", maxLines+1)},
		"does not end":                {"cat <<E\n" + strings.Repeat(strings.Repeat("x", 400)+"\n", 100)},
	} {
		if got, v := typed(r, Typed{}, texts...); len(got) == 0 {
			t.Errorf("%s: nothing found: %+v", name, v)
		}
	}
}

func TestTypedOrdinarily(t *testing.T) {
	r := rules(t, "")
	for name, texts := range map[string][]string{
		"lines":                    {"ls\n", "cd x && make\r", "git status\n"},
		"half a danger":            {"rm -rf /"},
		"taken back":               {"r''m -rf /", "\x15", "ls\n"},
		"taken back by letters":    {"r''m -rf /" + strings.Repeat("\x7f", 20) + "ls\n"},
		"taken back by words":      {"r''m -rf /\x17\x17\x17ls\n"},
		"given up":                 {"r''m -rf /", "\x03", "ls\n"},
		"edited and given up":      {"m\x1b[Dr\x03", "ls\n"},
		"multi-line":               {"for i in a b; do\n", "echo $i\n", "done\n"},
		"here-document":            {"cat > x <<'E'\n", "it's (\n", "E\n", "ls\n"},
		"open quote":               {"git commit -m 'a\n", "\n", "b'\n"},
		"continued":                {"make \\\n", " test\n"},
		"variable":                 {"d=build\n", "rm -rf \"$d\"\n"},
		"temporary folder":         {"t=$(mktemp -d)\n", "cd \"$t\"\n", "rm -rf \"$t\"\n"},
		"pasted":                   {"\x1b[200~echo a\necho b\x1b[201~\n"},
		"blank":                    {"\n\n\r\n"},
		"no history":               {"echo a != b! '!!' $! ${!x} [!a]\n", "! false\n", "echo \"hi!\"\n", "echo \\!x\n"},
		"focus":                    {"\x1b[I", "ls\n"},
		"flow control":             {"\x13\x11\x0cls\n"},
		"interpreter":              {"python3\n", "def f(x):\n", "\treturn \"it's\" + x\n", "\n", "f('a')\n", "exit()\n", "ls\n"},
		"interpreter and its end":  {"python3\n", "1+1\n", "\x04", "ls\n"},
		"interpreter with history": {"python3\n", "\x1b[A\n"},
		"confirmed once":           {},
	} {
		if got, v := typed(r, Typed{}, texts...); len(got) != 0 {
			t.Errorf("%s: asks at %v: %+v", name, got, v)
		}
	}
}

func TestWhatIsConfirmedIsAskedOnce(t *testing.T) {
	r := rules(t, "")
	for _, texts := range [][]string{
		{"r''m -rf /\n", "ls\n", "ls\n"},
		{"\x1b[A\n", "ls\n"},
		{"python3\n", "import os; os.system('r'+'m -rf /')\n", "1+1\n", "2+2\n"},
	} {
		if got, _ := typed(r, Typed{}, texts...); len(got) != 1 {
			t.Errorf("%q: asks at %v", texts, got)
		}
	}
}

// TestARefusedLineIsNotTyped: the state from before goes on.
func TestARefusedLineIsNotTyped(t *testing.T) {
	r := rules(t, "")
	before, _ := r.Type(Typed{}, []byte("echo '"))
	if _, v := r.Type(before, []byte("a'; r''m -rf /\n")); !v.Dangerous {
		t.Fatal("not found")
	}
	if _, v := r.Type(before, []byte("r\"\"m -rf /'\n")); v.Dangerous {
		t.Errorf("%+v", v)
	}
}

func TestTyping(t *testing.T) {
	r := rules(t, "")
	for command, c := range map[string]struct{ line, ordinary string }{
		"bash":                        {"r''m -rf /\n", "ls\n"},
		"bash -l":                     {"ls )\n", "ls\n"},
		"cd x && zsh":                 {"ls )\n", "ls\n"},
		"sh -c 'exec bash'":           {"ls )\n", "ls\n"},
		"sudo -i":                     {"ls )\n", "ls\n"},
		"env FOO=1 bash":              {"ls )\n", "ls\n"},
		"python3":                     {"import os; os.system('r'+'m -rf /')\n", "x = [1, 2\n"},
		"env python3 -i":              {"__import__('os').system('x')\n", "print(\"it's\")\n"},
		"node":                        {"require('fs').rmSync('/', {recursive: true})\n", "const s = `it's`\n"},
		"vim x":                       {":!r''m -rf /\n", "it's (\x1b[A\x1b:wq\n"},
		"psql db":                     {"\\! r''m -rf /\n", "select 'it''s';\n"},
		"docker exec -it x bash":      {"r''m -rf /\n", "ls )\n"},
		"docker exec -it x sh":        {"reboot\n", "don't\n"},
		"python3 x.py":                {"re''boot\n", "it's\n"},
		"$UNKNOWN":                    {"re''boot\n", "it's\n"},
		"cat > x":                     {"re''boot\n", "it's\n"},
		strings.Repeat("sudo ", 100):  {"re''boot\n", "ls\n"},
		"kubectl exec -it x -- sh\n ": {"sh <<E\nr''m -rf /\nE\n", "cat <<E\nx\nE\n"},
	} {
		if _, v := r.Type(Typing(command), []byte(c.line)); !v.Dangerous {
			t.Errorf("%s: not found: %q", command, c.line)
		}
		if _, v := r.Type(Typing(command), []byte(c.ordinary)); v.Dangerous {
			t.Errorf("%s: asks for %q: %q", command, c.ordinary, v.Matches)
		}
	}
}

// TestWhatWasTypedIsForgottenInTheEnd: what earlier lines set is kept in bounds, without an error.
func TestWhatWasTypedIsForgottenInTheEnd(t *testing.T) {
	r := rules(t, "")
	state := Typed{}
	for range 60 {
		var v Verdict
		if state, v = r.Type(state, []byte("x="+strings.Repeat("a", 300)+"\nf() {\n echo y\n}\n")); v.Dangerous {
			t.Fatal(v)
		}
		if len(state.earlier) > maxEarlier {
			t.Fatal("keeps", len(state.earlier))
		}
	}
	if _, v := r.Type(state, []byte("a=r''m\n$a -rf /\n")); !v.Dangerous {
		t.Error("not found after all that")
	}
}
