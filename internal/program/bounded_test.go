package program

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestBounded(t *testing.T) {
	budget := NewBudget(8)
	one, two := Bounded{Budget: budget}, Bounded{Budget: budget}
	for range 2 {
		if n, err := one.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := two.Write([]byte("abc")); !errors.Is(err, ErrFull) || len(two.Bytes()) != 0 {
		t.Errorf("%q, %v", two.Bytes(), err)
	}
	if _, err := one.Write([]byte("a")); !errors.Is(err, ErrFull) || string(one.Bytes()) != "abcabc" {
		t.Errorf("after the budget was used up: %q, %v", one.Bytes(), err)
	}
	head := Bounded{Budget: NewBudget(4), Discard: true}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := head.Write([]byte(text)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if string(head.Bytes()) != "abcd" || !head.Truncated {
		t.Errorf("%q, %v", head.Bytes(), head.Truncated)
	}
}

// TestBoundedHasNoReadFrom checks that io.Copy can't exceed the budget. io.Copy prefers ReadFrom to
// Write.
func TestBoundedHasNoReadFrom(t *testing.T) {
	to := Bounded{Budget: NewBudget(8)}
	if n, err := io.Copy(&to, io.LimitReader(zeros{}, 1<<20)); err == nil || n > 8 || len(to.Bytes()) > 8 {
		t.Errorf("%d bytes were copied, %d are kept: %v", n, len(to.Bytes()), err)
	}
	if !bytes.Equal(to.Bytes(), nil) {
		t.Errorf("kept a part of a piece: %v", to.Bytes())
	}
}
