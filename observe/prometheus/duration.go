package prometheus

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
)

const (
	// numCodes is how many codes gRPC has, and one for others.
	numCodes = int(codes.Unauthenticated) + 2

	// maxMethods bounds the methods that have series of their own. etcd has 60.
	maxMethods = 100
)

// durations are the histograms of a method or an endpoint, by code.
type durations struct {
	label  string // of a method
	make   func(code string) prometheus.Observer
	byCode [numCodes]atomic.Pointer[prometheus.Observer]
}

// observe notes how long something took. For a code that it has met before it allocates
// nothing.
func (d *durations) observe(err error, took time.Duration) {
	code := status.Code(err)
	at := &d.byCode[min(int(code), numCodes-1)]
	known := at.Load()
	if known == nil {
		made := d.make(codeName(code))
		known = &made
		at.Store(known)
	}
	(*known).Observe(took.Seconds())
}

// codeName returns the name of a code, which all codes that gRPC does not have share.
func codeName(code codes.Code) string {
	if code > codes.Unauthenticated {
		return other
	}
	return code.String()
}

// Called measures a call.
func (o *Observer) Called(e observe.Call) { o.durationsOf(e.Method).observe(e.Err, e.Took) }

// durationsOf returns the histograms of a method, and makes them unless another goroutine has.
func (o *Observer) durationsOf(full string) *durations {
	if known, ok := o.methods.Load(full); ok {
		return known.(*durations)
	}
	label, key := utf8text.Of(strings.TrimPrefix(full, "/")), full
	if o.known.Add(1) > maxMethods {
		label, key = other, other
	}
	known, loaded := o.methods.LoadOrStore(key, &durations{label: label, make: func(code string) prometheus.Observer {
		return o.shared.calls.WithLabelValues(o.client, label, code)
	}})
	if loaded {
		o.known.Add(-1)
	}
	return known.(*durations)
}

// Attempted measures an attempt of a call. Streams last as long as they are used, and are not measured.
func (o *Observer) Attempted(e observe.Attempt) {
	if e.Conn == observe.ConnCalls {
		o.picksOf(e.Endpoint).took.observe(e.Err, e.Took)
	}
}
