package cli

import (
	"errors"
	"strconv"
)

// positiveInt is the value of a flag that counts something: zero and less are refused where they are read.
type positiveInt int

// positive makes a flag's value with a default.
func positive(target *int, byDefault int) *positiveInt {
	*target = byDefault
	return (*positiveInt)(target)
}

// Set reads the value.
func (p *positiveInt) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*p = positiveInt(n)
	return nil
}

// String gives the value.
func (p *positiveInt) String() string { return strconv.Itoa(int(*p)) }

// Type names the value in help texts.
func (p *positiveInt) Type() string { return "int" }
