package check_test

import (
	"fmt"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/history"
)

func ExampleChecker() {
	c := check.New()

	// A put is acknowledged at revision 12 …
	put := history.Call{Kind: history.Put, Key: history.Key{Space: history.Puts}}
	ticket := c.Invoke(put)
	put.Revision = 12
	c.Return(ticket, put)

	// … and a linearizable get that is sent later is answered at revision 11.
	get := history.Call{Kind: history.LinearizableGet, Key: history.CounterOf(0)}
	ticket = c.Invoke(get)
	get.Revision = 11
	c.Return(ticket, get)

	for _, v := range c.Verdict().Violations {
		fmt.Println(v.Promise)
		fmt.Println(v.Message)
	}
	// Output:
	// went_backwards
	// linearizable get answered at revision 11 although revision 12 had been answered before it was sent
}
