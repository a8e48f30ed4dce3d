package batch

import (
	"math/bits"

	"github.com/quorate/quorate/observe"
)

// sizeClasses names the size classes of RPCs, each by the most calls that an RPC of it has.
var sizeClasses = [...]string{"1", "4", "16", "64", "256", "more"}

type counters struct {
	calls, refused int64
	rpcs           [len(sizeClasses)]int64
}

// sent counts an RPC that callers share.
func (c *counters) sent(callers int) {
	c.rpcs[min((bits.Len(uint(callers-1))+1)/2, len(sizeClasses)-1)]++
}

// Metrics returns the number of calls, of RPCs by size, and of waiting calls, for observe/prometheus,
// observe/otel and other metrics libraries.
func (k *KV) Metrics() []observe.Metric {
	var all []observe.Metric
	for _, of := range []struct {
		kind string
		*dispatcher
	}{{"get", k.reads}, {"put", k.puts}, {"delete", k.deletes}} {
		if of.dispatcher != nil {
			all = append(all, of.metrics(of.kind)...)
		}
	}
	return all
}

func (d *dispatcher) metrics(kind string) []observe.Metric {
	d.mu.Lock()
	counted, waiting := d.counted, 0
	for _, c := range d.queue {
		waiting += c.callers
	}
	d.mu.Unlock()
	all := make([]observe.Metric, 0, 3+len(sizeClasses))
	all = append(all,
		observe.Counter("quorate.batch.calls", "{call}", "Calls that may share an RPC.", float64(counted.calls)),
		observe.Counter("quorate.batch.refused", "{rpc}", "Shared RPCs that failed and whose calls were sent again, gets alone and writes in parts.", float64(counted.refused)),
		observe.Gauge("quorate.batch.waiting", "{call}", "Calls that wait to be sent.", float64(waiting)),
	)
	for i, n := range counted.rpcs {
		all = append(all, observe.Counter("quorate.batch.rpcs", "{rpc}", "RPCs of the calls, by the most calls that one of the size has.", float64(n)).
			By("size", sizeClasses[i]))
	}
	for i := range all {
		all[i] = all[i].By("kind", kind)
	}
	return all
}
