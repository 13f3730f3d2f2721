package terminal

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

const limit = 1 << 20

func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, wrote, seen string }{
		{"text", "a\r\nb\r\n$ ", "a\nb\n$ "},
		{"nothing", "", ""},
		{"a line that ended", "a\r\n", "a\n"},
		{"carriage return", "10%\r20%\r100%\r\n", "100%\n"},
		{"shorter over longer", "longer\rab", "abnger"},
		{"backspace", "lss\b \b -l", "ls -l"},
		{"backspace at the beginning", "\b\b\bx", "x"},
		{"tab", "a\tb\tc\td", "a       b       c  d"},
		{"colours", "\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[m \x1b[38:2::1:2:3mx\x1b[0m", "red pink x"},
		{"erase to the end", "old text\r\x1b[Knew", "new"},
		{"erase to the beginning", "old text\x1b[4D\x1b[1Kx", "    xext"},
		{"erase the line", "old text\x1b[2K\rnew", "new"},
		{"erase characters", "abcdef\r\x1b[C\x1b[2Xx", "ax def"},
		{"cursor up", "one\r\ntwo\r\n\x1b[2Aset\x1b[2B\r", "set\ntwo\n"},
		{"cursor forward", "a\x1b[3Cb", "a   b"},
		{"column", "abc\x1b[2Gx\x1b[1Gy", "yxc"},
		{"position", "\x1b[2;3Hx\x1b[1;1Hy", "y\n  x"},
		{"insert characters", "ac\x1b[D\x1b[@b", "abc"},
		{"delete characters", "abxxc\x1b[3D\x1b[2P", "abc"},
		{"insert lines", "a\r\nc\r\x1b[Lb", "a\nb\nc"},
		{"delete lines", "a\r\nx\r\nb\x1b[A\x1b[M", "a\nb"},
		{"clear", "before\r\n\x1b[H\x1b[2Jafter", "after"},
		{"bracketed paste and title", "\x1b[?2004h\x1b]0;title\x07$ ls\x1b[?2004l\r\n", "$ ls\n"},
		{"a title that ESC \\ ends", "\x1b]2;title\x1b\\x", "x"},
		{"a title that is not ASCII", "\x1b]0;✳ Claude Ü 本\x07x\x1b]0;本\x1b\\y", "xy"},
		{"a title that a C1 control ends", "\x1b]0;Ü\u009cx\x1b]0;t\x9cy", "xy"},
		{"a title that is not UTF-8", "\x1b]0;\xfc\xe2\x07x\x1b]0;\xe0\x9cy\x1b]0;\xc3\x1b\\z", "xyz"},
		{"a device's string", "a\x1bPq#0;2;0;0;0#0~~\x1b\\b", "ab"},
		{"questions", "\x1b[c\x1b[6n\x1b[>c\x1b[?1$px", "x"},
		{"repeat", "-\x1b[4b", "-----"},
		{"save and restore", "ab\x1b7cd\x1b8x", "abxd"},
		{"line drawing", "\x1b(0lqk\x1b(Blqk", "┌─┐lqk"},
		{"line drawing by shifting", "\x1b)0lqk\x0elqk\x0flqk\x1b)B\x0elqk", "lqk┌─┐lqklqk"},
		{"line drawing in both sets", "\x1b(0\x1b)0lqk\x0elqk\x1b(Blqk\x0flqk", "┌─┐┌─┐┌─┐lqk"},
		{"line drawing in other sets", "\x1b*0\x1b+0lqk", "lqk"},
		{"reset of the sets", "\x1b)0\x0e\x1bclqk", "lqk"},
		{"reset", "old\x1bcnew", "new"},
		{"long line", strings.Repeat("x", 50), strings.Repeat("x", 50)},
		{"long line with an end", strings.Repeat("x", 20) + "\r\ny", strings.Repeat("x", 20) + "\ny"},
		{"many lines", strings.Repeat("line\r\n", 30) + "end", strings.Repeat("line\n", 30) + "end"},
		{"no wrap", "\x1b[?7l" + strings.Repeat("x", 30) + "y", strings.Repeat("x", 19) + "y"},
		{"wide", "日本\b\bx", "日x "},
		{"half of a wide one", "日本\r\x1b[Cx", " x本"},
		{"a wide one in the next row", strings.Repeat("x", 19) + "日", strings.Repeat("x", 19) + "日"},
		{"combining", "e\u0301\u0302x\b\by", "yx"},
		{"combining is kept", "e\u0301x", "e\u0301x"},
		{"an emoji of several", "👩\u200d💻!", "👩\u200d💻!"},
		{"alternate screen", "$ vim\r\n\x1b[?1049h\x1b[H\x1b[2Jtext\x1b[5;1Hstatus\x1b[?1049l$ ", "$ vim\n$ "},
		{"in the alternate screen", "$ top\r\n\x1b[?1049h\x1b[Htext   \x1b[3;1Hstatus", "$ top\n\ntext\n\nstatus"},
		{"region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx\x1b[r", "1\n3\nx\n4"},
		{"region at the top", "1\r\n2\r\n3\x1b[10;1Hbar\x1b[1;9r\x1b[9;1H\n\n4\x1b[r", "1\n2\n3\n\n\n\n\n\n\n\n4\nbar"},
		{"a long scroll at the top", "1\r\n2\r\n3\x1b[1;2r\x1b[9S", "1\n2\n\n\n3"},
		{"apt's progress bar", "\n\x1b7\x1b[0;9r\x1b8\x1b[1A\x1b7\x1b[10;0H[# ]\x1b8" + strings.Repeat("Setting up\r\n", 12), strings.Repeat("Setting up\n", 12) + "\n[# ]"},
		{"deleted lines in a region at the top", "1\r\n2\r\n3\x1b[1;2r\x1b[M", "2\n\n3"},
		{"region at the top of the alternate screen", "\x1b[?1049h\x1b[1;2r\x1b[H1\r\n2\r\n3", "2\n3"},
		{"reverse index", "a\x1b[H\x1bMb", "b\na"},
		{"scroll up", "a\r\nb\x1b[S", "a\nb\n"},
		{"scroll down", "a\x1b[T\rb", "b\na"},
		{"not UTF-8", "a\xffb\xc3", "a\ufffdb"},
		{"cut characters", "\xe6\x97x", "\ufffdx"},
		{"bell and nulls", "a\x07\x00b", "ab"},
		{"C1", "a\u009b31mb\u009d0;t\u009cc", "abc"},
		{"a sequence that a control cuts", "\x1b[3\x18m", "m"},
		{"a sequence that another cuts", "\x1b[3\x1b[1mx", "x"},
		{"a control in a sequence", "ab\x1b[\b1mx", "ax"},
		{"a huge number", "\x1b[99999999999999999999;1Hx\x1b[Hy", "y" + strings.Repeat("\n", 9) + "x"},
		{"many numbers", "\x1b[" + strings.Repeat("1;", 1000) + "mx", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if seen := Plain(20, 10, limit, nil, []byte(c.wrote)); seen != c.seen {
				t.Errorf("%q is seen as %q, want %q", c.wrote, seen, c.seen)
			}
		})
	}
}

func TestRows(t *testing.T) {
	s := New(20, 3, limit)
	for i, want := range []string{"1", "1|2", "2|3", "3|4"} {
		fmt.Fprintf(s, "%d\r\n", i+1)
		if rows := strings.Join(s.Rows(), "|"); rows != want {
			t.Errorf("%q, want %q", rows, want)
		}
	}
}

// TestPlainFullScreen checks that the result contains the whole alternate screen, even if the piece
// changes only a small part of that screen.
func TestPlainFullScreen(t *testing.T) {
	before := "\x1b[?1049h\x1b[Hfirst row\x1b[3;1Hthird row"
	if seen := Plain(20, 10, limit, []byte(before), []byte("\x1b[2;1Hsecond row")); seen != "first row\nsecond row\nthird row" {
		t.Errorf("%q", seen)
	}
	if seen := Plain(20, 10, limit, []byte(before), []byte("\x1b[?1049l$ ")); seen != "$ " {
		t.Errorf("after its end: %q", seen)
	}
}

func TestCutAnywhere(t *testing.T) {
	whole := "a\x1b[1;31mré日\x1b]0;本\x07\r\n\x1b[?1049hx\x1b[?1049l\x1bPq\x1b\\👩\u200d💻\x1b[2;2H!"
	want := Plain(20, 10, limit, nil, []byte(whole))
	for i := range len(whole) {
		s := New(20, 10, limit)
		s.Write([]byte(whole[:i]))
		s.Write([]byte(whole[i:]))
		if s.String() != want {
			t.Errorf("cut at %d: %q, want %q", i, s.String(), want)
		}
	}
}

func TestUnfinished(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for piece, want := range map[string]int{
		"": 0, "text": 0, "\x1b[31mred": 0, "\x1b]0;title\x07": 0, "\x1b]0;title\x1b\\": 0, "\x1b]0;title\u009c": 0, "\x1b(B": 0, "\x1b7": 0, "\x1b[3\x18": 0,
		"red\x1b": 1, "red\x1b[": 2, "red\x1b[38;5;20": 9, "red\x1b(": 2, "\x1b[31m\x1b[3": 3, "a\u009b3": 3, "a\xc2": 1,
		"a\x1b]0;ti": 6, "a\x1b]0;ti\x1b": 7, "a\x1b]0;Ü本": 9, "a\x1b]0;\xe6\x9c": 6, "a\x1bPq#0": 5,
		long + "\x1b[3": 3, long + "\x1b]0;" + long[:4000]: 4004, "\x1b]0;" + long: 0,
	} {
		if n := Unfinished([]byte(piece)); n != want {
			t.Errorf("%.50q: %d, want %d", piece, n, want)
		}
	}
}

// TestReadsAnywhere checks that no part of a sequence is visible if a reader cuts the output where
// Unfinished says.
func TestReadsAnywhere(t *testing.T) {
	whole := "a\x1b[38;5;200mb\x1b]0;本 title\x1b\\c\x1b(B\u009b1md日\x1bPq#0\x07e"
	for cut := range len(whole) {
		at := cut - Unfinished([]byte(whole[:cut]))
		if seen := Plain(20, 10, limit, nil, []byte(whole[:at])) + Plain(20, 10, limit, nil, []byte(whole[at:])); seen != "abcd日e" {
			t.Errorf("cut at %d instead of %d: %q", at, cut, seen)
		}
	}
}

func TestLimit(t *testing.T) {
	var wrote strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&wrote, "line %d\r\n", i)
	}
	seen := Plain(80, 24, 1000, nil, []byte(wrote.String()))
	if len(seen) > 1100 || !strings.HasPrefix(seen, "[… earlier lines are left out …]\nline 19") || !strings.HasSuffix(seen, "\nline 19999\n") {
		t.Errorf("%d bytes: %q", len(seen), seen)
	}
	if seen := Plain(80, 24, 1000, nil, []byte(strings.Repeat("日", 10_000))); len(seen) > 1100 || !utf8.ValidString(seen) {
		t.Errorf("a long line: %d bytes: %q", len(seen), seen)
	}
	hostile := strings.Repeat("\x1b[999Cx\x1b[999b\n", 2*MaxSide)
	if seen := Plain(MaxSide, MaxSide, 1000, nil, []byte(hostile)); len(seen) > 1100 {
		t.Errorf("%d bytes are seen", len(seen))
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(uint16(20), uint16(10), []byte("\x1b[?1049h\x1b[2;5r\x1b[3M日\x1b[L\x1b[5@"), []byte("\x1b[99;99H\x1bM\n\x1b[2J\x1b[3J"))
	f.Add(uint16(1), uint16(1), []byte("\x1b[?1049h"), []byte("日\x1b[1;1r\x1b[S\x1b[T\x1b[@\x1b[P\x1b[X\te\u0301"))
	f.Add(uint16(3), uint16(2), []byte{}, []byte("日本\x1b[D\x1b[2P\x1b[D\x1b[1@\x1b[Dx\x1b[1K\x1b[K\x1b[5b"))
	f.Fuzz(func(t *testing.T, cols, rows uint16, before, piece []byte) {
		const limit = 4096
		seen := Plain(int(cols%200), int(rows%60), limit, before, piece)
		if !utf8.ValidString(seen) {
			t.Errorf("%q is not UTF-8", seen)
		}
		if most := limit + 200*60*8 + 100; len(seen) > most {
			t.Errorf("%d bytes are seen", len(seen))
		}
		if strings.ContainsAny(seen, "\x1b\r\b\a\x00") {
			t.Errorf("a control character remains in %q", seen)
		}
	})
}

func BenchmarkPlain(b *testing.B) {
	piece := []byte(strings.Repeat("\x1b[32mok\x1b[0m   some/package/name\t0.123s\r\n", 1500))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		Plain(120, 30, limit, nil, piece)
	}
}
