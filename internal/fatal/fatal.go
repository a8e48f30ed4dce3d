// Package fatal ends a sequence of calls at the first error, with a panic that [Catch] turns into that error. It is for
// steps that each need the previous ones, which can then be written without a check after each.
package fatal

import "fmt"

// failure is what If panics with.
type failure struct{ error }

// Catch calls f, and returns the error that ended it. Other panics go on.
func Catch(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			failed, is := v.(failure)
			if !is {
				panic(v)
			}
			err = failed.error
		}
	}()
	f()
	return nil
}

// If ends what runs within Catch, in the same goroutine, if there is an error. While says what was done then, and stands before
// the error, if it is given.
func If(err error, while ...string) {
	if err == nil {
		return
	}
	for _, what := range while {
		err = fmt.Errorf("%s: %w", what, err)
	}
	panic(failure{err})
}

// OK returns the result of a call that must succeed.
func OK[T any](result T, err error) T {
	If(err)
	return result
}
