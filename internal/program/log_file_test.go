package program

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if kept, dropped, err := ReadLogFile(path); len(kept) != 0 || dropped != 0 || err != nil {
		t.Errorf("missing log file: got %q, %d, %v", kept, dropped, err)
	}
	f, err := CreateLogFile(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i := range 100 {
		line := strings.Repeat("x", i%7) + fmt.Sprintln(i)
		all.WriteString(line)
		if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		kept, dropped, err := ReadLogFile(path)
		if err != nil || dropped+int64(len(kept)) != int64(all.Len()) || !bytes.HasSuffix(all.Bytes(), kept) || len(kept) > 100 || all.Len() > 50 && len(kept) < 50 {
			t.Fatalf("%d of %d are kept, %d dropped, %v", len(kept), all.Len(), dropped, err)
		}
	}
	long := strings.Repeat("0123456789", 100)
	if n, err := f.Write([]byte(long)); n != len(long) || err != nil {
		t.Error(n, err)
	}
	if kept, _, err := ReadLogFile(path); err != nil || !strings.HasSuffix(long, string(kept)) {
		t.Errorf("%q, %v", kept, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	g, err := CreateLogFile(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	g.Write([]byte("new"))
	if kept, dropped, err := ReadLogFile(path); string(kept) != "new" || dropped != 0 || err != nil {
		t.Errorf("%q, %d, %v", kept, dropped, err)
	}
	g.Close()
	if err := RemoveLogFile(path); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestReadFileDuringWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := CreateLogFile(path, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				fmt.Fprintf(f, "%08d\n", i)
			}
		}
	})
	for range 300 {
		kept, dropped, err := ReadLogFile(path)
		if err != nil && !strings.Contains(err.Error(), errRotated.Error()) {
			t.Fatal(err)
		}
		if i := bytes.IndexByte(kept, '\n'); i < 0 || err != nil {
			continue
		}
		// The kept lines must be complete and in order.
		first := (9 - dropped%9) % 9
		want := -1
		for line := range strings.Lines(string(kept[first:])) {
			if n, err := strconv.Atoi(strings.TrimSpace(line)); len(line) == 9 && err == nil {
				if want >= 0 && n != want {
					t.Fatalf("%d follows %d", n, want-1)
				}
				want = n + 1
			}
		}
	}
	close(stop)
	writer.Wait()
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
		all  bool
	}{
		{"", 5, "", true}, {"a", 1, "a", true}, {"a\n", 1, "a\n", true}, {"a\nb\n", 1, "b\n", false}, {"a\nb", 1, "b", false}, {"a\nb\n", 2, "a\nb\n", true},
		{"a\n\n\n", 1, "\n", false}, {"a\n\n\n", 2, "\n\n", false}, {"a\nb\nc", 2, "b\nc", false}, {"\n", 1, "\n", true}, {"a\nb\n", 0, "", false},
	} {
		if got, all := LastLines([]byte(c.text), c.n); string(got) != c.want || all != c.all {
			t.Errorf("the last %d of %q: %q, %v", c.n, c.text, got, all)
		}
	}
}
