package faults

import (
	"context"
	"io"
	"iter"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

// deliverer is a watcher whose watches deliver a number each, 20 ms after they begin, and all but the first stay open.
type deliverer struct{ requests []history.WatchRequest }

func (d *deliverer) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	seq := len(d.requests)
	d.requests = append(d.requests, req)
	return func(yield func(history.WatchResponse) bool) {
		time.Sleep(20 * time.Millisecond)
		e := history.Event{KeyValue: history.KeyValue{Key: req.Key, Value: strconv.Itoa(seq), ModRevision: req.StartRevision}}
		if yield(history.WatchResponse{Events: []history.Event{e}}) && seq > 0 {
			<-ctx.Done()
		}
	}
}

func TestWhatIsWrittenOutsideIsWatchedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d := &deliverer{}
		r := newRun(Config{})
		r.env = &robustness.Env{Log: robustness.NewLog(io.Discard)}
		r.conn.Watcher = d
		r.rec.Outside = make([]report.OutsideWrite, 3)
		r.watchOutside(ctx, history.WatchRequest{Key: "outside", StartRevision: 7})
		require.Len(t, d.requests, 2)
		assert.EqualValues(t, 7, d.requests[0].StartRevision)
		assert.EqualValues(t, 8, d.requests[1].StartRevision, "it goes on where the first ended")
		assert.Equal(t, []report.OutsideWrite{{Delivered: 20 * time.Millisecond}, {Delivered: 45 * time.Millisecond}, {}}, r.rec.Outside)
	})
}
