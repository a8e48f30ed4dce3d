package robustness

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/lab/fault"
)

// maxMembers is the largest cluster that the lab starts.
const maxMembers = 9

// Check collects what is wrong with a configuration, so that its user learns of everything at once. The zero value has found
// nothing.
type Check struct{ wrong []error }

// That notes what is wrong, unless ok.
func (c *Check) That(ok bool, format string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Errorf(format, args...))
	}
}

// Number notes a number of what that is not 1 to limit.
func (c *Check) Number(of string, n, limit int) {
	c.That(n >= 1 && n <= limit, "the number of %s must be 1 to %d; it is %d", of, limit, n)
}

// Members notes a number of members that faults cannot be injected into.
func (c *Check) Members(n int) {
	c.That(n >= fault.MinMembers && n <= maxMembers, "the number of members must be %d to %d, so that a majority outlives the loss of one; it is %d",
		fault.MinMembers, maxMembers, n)
}

// Err returns all that was found, nil if nothing was.
func (c *Check) Err() error { return errors.Join(c.wrong...) }
