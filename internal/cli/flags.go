package cli

import (
	"errors"
	"strconv"
)

// positiveInt is a flag value that must be at least 1.
type positiveInt int

// positive returns a flag value that sets target. It sets target to the default first.
func positive(target *int, byDefault int) *positiveInt {
	*target = byDefault
	return (*positiveInt)(target)
}

// change returns a flag value that sets target, and leaves it 0 if the flag is not given.
func change(target *int) *positiveInt { return positive(target, 0) }

// Set implements pflag.Value.
func (p *positiveInt) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*p = positiveInt(n)
	return nil
}

// String implements pflag.Value.
func (p *positiveInt) String() string { return strconv.Itoa(int(*p)) }

// Type implements pflag.Value. Help texts show this type.
func (p *positiveInt) Type() string { return "int" }
