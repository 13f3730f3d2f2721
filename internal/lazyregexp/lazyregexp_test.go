package lazyregexp

import "testing"

func TestNew(t *testing.T) {
	word := New(`^\w+$`)
	first := word()
	if !first.MatchString("word") || first.MatchString("two words") {
		t.Error("this is another expression")
	}
	if word() != first {
		t.Error("the expression is compiled again")
	}
	invalid := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression must panic")
		}
	}()
	invalid()
}
