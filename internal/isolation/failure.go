package isolation

import (
	"errors"
	"strings"

	"github.com/pyro-mcp/pyro/internal/fault"
	"github.com/pyro-mcp/pyro/internal/machine"
)

// failure is the reason why some levels do not work.
type failure struct {
	levels []string
	cause  error
}

func (f failure) Error() string { return strings.Join(f.levels, " and ") + ": " + f.cause.Error() }

func (f failure) Unwrap() error { return f.cause }

type failures []failure

// add adds the error of one level. Consecutive levels that fail for the same cause share one
// failure.
func (all *failures) add(level machine.Isolation, err error) {
	cause := CauseOf(err, level)
	if last := len(*all) - 1; last >= 0 && sameCause((*all)[last].cause, cause) {
		(*all)[last].levels = append((*all)[last].levels, string(level))
		return
	}
	*all = append(*all, failure{[]string{string(level)}, cause})
}

// last returns the failure that was added last, or nil if there is none.
func (all failures) last() error {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func (all failures) String() string {
	var text []string
	for _, f := range all {
		text = append(text, f.Error())
	}
	return strings.Join(text, "; ")
}

// sameCause reports whether two errors have the same cause: a matches b with errors.Is, or the same
// operation failed on the same subject.
func sameCause(a, b error) bool {
	if errors.Is(a, b) {
		return true
	}
	var x, y *fault.Error
	return errors.As(a, &x) && errors.As(b, &y) && x.Op != "" && x.Op == y.Op && x.Subject == y.Subject
}

// CauseOf returns the cause of an error from a driver's method Prove. Use it in texts that already
// contain the level, because the error itself contains the level too.
func CauseOf(err error, level machine.Isolation) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Subject == string(level) && f.Err != nil {
		return f.Err
	}
	return err
}
