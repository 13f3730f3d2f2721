package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{New(NotFound, "inspect environment", "debian:99", "no such environment"), `inspect environment "debian:99": no such environment`},
		{&Error{Op: "start machine"}, "start machine"},
		{&Error{Err: errors.New("gone")}, "gone"},
		{&Error{Subject: "x", Err: errors.New("gone")}, `"x": gone`},
		{&Error{Kind: Corrupt}, "corrupt"},
		{&Error{Op: "list", Subject: "none", Err: &fs.PathError{Op: "open", Path: "none", Err: syscall.ENOENT}}, `list "none": file does not exist`},
		{&Error{Op: "list", Subject: "a/b", Err: errors.New("openat a/b: not a directory")}, `list "a/b": not a directory`},
		{&Error{Op: "read", Subject: "/workspace/none", Err: Newf(NotFound, "open none: no such file or directory")}, `read "/workspace/none": file does not exist`},
		{&Error{Op: "write", Subject: "a/b", Err: errors.New("open a: not a directory")}, `write "a/b": open a: not a directory`},
		{&Error{Op: "read", Subject: "x", Err: errors.New("It's open x: odd")}, `read "x": It's open x: odd`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	base := New(Exhausted, "write", "image", "disk full").WithHint("pyro env prune")
	err := fmt.Errorf("while pulling: %w", Wrap(Wrap(base, "build", "rootfs"), "pull", "debian:12"))
	if KindOf(err) != Exhausted || HintOf(err) != "pyro env prune" {
		t.Errorf("kind %q, hint %q", KindOf(err), HintOf(err))
	}
	outer := &Error{Op: "run", Kind: Unavailable, Err: err, Hint: "pyro doctor"}
	if KindOf(outer) != Unavailable || HintOf(outer) != "pyro doctor" {
		t.Errorf("the outermost kind and hint must win: %q, %q", KindOf(outer), HintOf(outer))
	}
}

func TestKindOfForeignErrors(t *testing.T) {
	_, notExist := os.Open("/nonexistent")
	for err, want := range map[error]Kind{
		nil:                       "",
		notExist:                  NotFound,
		context.DeadlineExceeded:  Timeout,
		context.Canceled:          Canceled,
		errors.New("anything"):    Internal,
		Wrap(notExist, "op", "x"): NotFound,
	} {
		if got := KindOf(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	if Wrap(nil, "op", "x") != nil {
		t.Error("wrapping nil must be nil")
	}
}

func TestTables(t *testing.T) {
	exits, rpcs := map[int]Kind{}, map[uint32]Kind{}
	for _, k := range Kinds() {
		c := table[k]
		if other, taken := exits[c.exit]; taken {
			t.Errorf("%q and %q share exit code %d", k, other, c.exit)
		}
		exits[c.exit] = k
		if other, taken := rpcs[c.rpc]; taken {
			t.Errorf("%q and %q share RPC code %d", k, other, c.rpc)
		}
		rpcs[c.rpc] = k
		if FromRPC(c.rpc) != k {
			t.Errorf("RPC code %d does not map to %q", c.rpc, k)
		}
	}
	for _, k := range []Kind{Invalid, NotFound, Exists, Precondition, Permission, Exhausted, Canceled, Timeout, Unavailable, Unsupported, Corrupt, Internal} {
		if _, ok := table[k]; !ok {
			t.Errorf("%q is in no table", k)
		}
	}
}

func TestReport(t *testing.T) {
	err := New(NotFound, "inspect environment", "debian:99", "no such environment").WithHint("pyro env list")
	got, _ := json.Marshal(err)
	want := `{"error":{"kind":"not_found","message":"inspect environment \"debian:99\": no such environment","op":"inspect environment","subject":"debian:99","hint":"pyro env list"}}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a\x1b]0;title\a b\r\nc\x9b2Jd\u009b\xffé"); got != "a]0;title b\nc2Jdé" {
		t.Errorf("got %q", got)
	}
}

func TestErrorsIsKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind Kind
		want bool
	}{
		{New(NotFound, "find", "x", "it is gone"), NotFound, true},
		{Wrap(fmt.Errorf("outer: %w", Newf(Exhausted, "full")), "write", "x"), Exhausted, true},
		{Wrap(context.Canceled, "read", "x"), Canceled, true},
		{Wrap(errors.New("odd"), "read", "x"), Internal, true},
		{fmt.Errorf("bare: %w", Timeout), Timeout, true},
		{Newf(NotFound, "gone"), Exists, false},
		{errors.New("odd"), Internal, false},
	} {
		if got := errors.Is(c.err, c.kind); got != c.want {
			t.Errorf("errors.Is(%v, %v) is %t", c.err, c.kind, got)
		}
		if c.want && KindOf(c.err) != c.kind {
			t.Errorf("KindOf(%v) is %v", c.err, KindOf(c.err))
		}
	}
}
