package observe_test

import (
	"fmt"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// ejections prints which endpoints are not used. It implements the methods that it needs, and
// embeds None for the rest.
type ejections struct{ observe.None }

func (ejections) Ejected(e observe.Ejection) {
	fmt.Printf("%s is %v (%v)\n", e.Endpoint, e.State, e.Evidence.Kind)
}

func (ejections) Readmitted(e observe.Readmission) {
	fmt.Printf("%s is back\n", e.Endpoint)
}

func ExampleObserver() {
	var o observe.Observer = ejections{}

	// What a client does with it:
	o.Picked(observe.Pick{Endpoint: "10.0.0.2:2379", Method: "/etcdserverpb.KV/Range", Conn: observe.ConnCalls})
	o.Ejected(observe.Ejection{
		Endpoint: "10.0.0.2:2379", State: health.Dead, Evidence: health.Evidence{Kind: health.Unresponsive},
	})
	o.Readmitted(observe.Readmission{Endpoint: "10.0.0.2:2379"})
	// Output:
	// 10.0.0.2:2379 is dead (unresponsive)
	// 10.0.0.2:2379 is back
}
