package report

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/retry"
)

const ms = time.Millisecond

// rows returns rows that begin at the given moments and end where the next begins; the last moment is the end.
func rows(moments ...time.Duration) []Row {
	out := make([]Row, len(moments)-1)
	for i := range out {
		out[i].Start, out[i].End = (moments[i] * ms), (moments[i+1] * ms)
	}
	return out
}

// call returns a put, from start to end.
func call(start, end time.Duration, o history.Outcome) Call {
	c := Call{Operation: model.Operation{Request: model.Request{Kind: model.Put}, Call: start * ms, Return: end * ms, Outcome: o}}
	if o == history.OK {
		c.Response.Succeeded = true
	} else {
		c.Failure = status.Errorf(codes.Unavailable, "of %d", start)
	}
	return c
}

func TestCallsBelongToTheRowTheyStartedIn(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(10, 100, 200), Calls: []Call{
		call(0, 1, history.OK), // before the first row
		call(20, 30, history.OK),
		call(90, 190, history.Unknown),
		call(110, 130, history.Failed),
		call(150, 250, history.OK),
		call(210, 220, history.OK), // behind the last row
	}}
	r.Measure()
	healthy, stop := r.Rows[0].Calls[model.Put], r.Rows[1].Calls[model.Put]
	assert.Equal(t, []int{1, 0, 1}, []int{healthy.Completed, healthy.Errors, healthy.Unknown})
	assert.Equal(t, (100 * ms), healthy.Max)
	assert.Equal(t, []int{1, 1, 0}, []int{stop.Completed, stop.Errors, stop.Unknown})
	assert.Equal(t, Errors{"Unavailable": {2, "rpc error: code = Unavailable desc = of 90"}}, r.Errors)
}

func TestLongestGap(t *testing.T) {
	for name, tt := range map[string]struct {
		calls []Call
		want  time.Duration
	}{
		"no calls at all":  {nil, 100},
		"at the beginning": {[]Call{call(70, 75, history.OK), call(76, 99, history.OK)}, 75},
		"in the middle":    {[]Call{call(0, 10, history.OK), call(0, 90, history.OK)}, 80},
		"at the end":       {[]Call{call(0, 10, history.OK), call(0, 15, history.OK)}, 85},
		"errors do not end it": {[]Call{
			call(0, 10, history.OK), call(20, 50, history.Failed), call(20, 60, history.Unknown),
		}, 90},
		"recorded out of order": {[]Call{call(0, 50, history.OK), call(0, 49, history.OK), call(0, 80, history.OK)}, 49},
	} {
		t.Run(name, func(t *testing.T) {
			r := Recording{Errors: Errors{}, Rows: rows(0, 100), Calls: tt.calls}
			r.Measure()
			assert.Equal(t, (tt.want * ms), r.Rows[0].Calls[model.Put].LongestGap)
		})
	}
}

func TestGapBelongsToTheRowItHappenedIn(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(0, 100, 130), Calls: []Call{call(50, 110, history.OK)}}
	r.Measure()
	stop, healed := r.Rows[0].Calls[model.Put], r.Rows[1].Calls[model.Put]
	assert.Equal(t, []time.Duration{(100 * ms), (20 * ms)}, []time.Duration{stop.LongestGap, healed.LongestGap})
	assert.Equal(t, []int{1, 0}, []int{stop.Completed, healed.Completed})
}

func TestWhatHappensUnderTheFault(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(10, 70), Calls: []Call{
		call(11, 15, history.OK), call(18, 22, history.OK), call(18, 23, history.Failed), call(25, 35, history.OK), call(25, 45, history.OK),
	}}
	r.Rows[0].Fault, r.Rows[0].Heal = (20 * ms), (40 * ms)
	r.Measure()
	assert.Equal(t, 2, r.Rows[0].Calls[model.Put].Held)

	r = Recording{Errors: Errors{}, Rows: rows(10, 70)}
	r.Rows[0].Fault = (20 * ms)
	r.Measure()
	assert.Equal(t, r.Rows[0].End, r.Rows[0].Heal, "a fault that is not healed lasts as long as its row")
}

func TestLeases(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(0, 10, 0)}
	r.LeaseEnded(true, nil)
	r.LeaseEnded(false, status.Error(codes.Unavailable, "no answer"))
	r.Current().End = 20
	assert.Nil(t, r.Current())
	r.LeaseEnded(true, nil) // after the last row
	assert.Zero(t, r.Rows[0].LeasesLost)
	assert.Equal(t, 1, r.Rows[1].LeasesLost)
	assert.Equal(t, Errors{
		"lease keepalive ended": {Count: 1}, "lease Unavailable": {1, "rpc error: code = Unavailable desc = no answer"},
	}, r.Errors)
}

func TestCodeOf(t *testing.T) {
	unknown := &retry.UnknownOutcomeError{Method: "/etcdserverpb.KV/Put", Err: status.Error(codes.Unavailable, "reset")}
	for err, want := range map[error]string{
		unknown:                        "Unavailable",
		fmt.Errorf("put: %w", unknown): "Unavailable",
		context.DeadlineExceeded:       "DeadlineExceeded",
		context.Canceled:               "Canceled",
		errors.New("boom"):             "Unknown",
		status.Error(codes.InvalidArgument, "etcdserver: key is not provided"): "InvalidArgument",
	} {
		assert.Equal(t, want, codeOf(err), err)
	}
}

func TestDelayCountsFromTheAcknowledgement(t *testing.T) {
	for name, tt := range map[string]struct {
		ended   time.Duration
		outcome history.Outcome
		applied bool
		taken   time.Duration
		want    time.Duration
	}{
		"after it":                    {20, history.OK, true, 27, 7},
		"before it":                   {20, history.OK, true, 15, 0},
		"an unknown outcome has none": {20, history.Unknown, true, 27, 0},
		"a txn that was not applied":  {20, history.OK, false, 27, 0},
		"in a later row":              {120, history.OK, true, 150, 30},
	} {
		t.Run(name, func(t *testing.T) {
			c := call(10, tt.ended, tt.outcome)
			c.Keys, c.Response.Succeeded = &[model.Keys]string{"", "/k"}, tt.applied
			c.Request.Then = []model.Act{{Verb: model.Write, Key: 1, Value: "v"}}
			response := history.WatchResponse{At: tt.taken * ms, Events: []history.Event{
				{KeyValue: history.KeyValue{Key: "/k", Value: "of another"}}, {KeyValue: history.KeyValue{Key: "/k", Value: "v"}},
			}}
			r := Recording{Errors: Errors{}, Rows: rows(0, 100, 200), Calls: []Call{c}, Watches: []history.Watch{{Responses: []history.WatchResponse{response}}}}
			r.Measure()
			assert.Equal(t, tt.want*ms, r.Rows[0].EventDelay)
			assert.Zero(t, r.Rows[1].EventDelay)
		})
	}
}

func TestEndedWatches(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	watch := func(ended time.Duration, end history.Ending, responses ...history.WatchResponse) history.Watch {
		return history.Watch{Ended: ended * ms, End: end, Responses: responses}
	}
	r := Recording{Errors: Errors{}, Rows: rows(0, 100), Watches: []history.Watch{
		watch(10, history.EndedByItself, history.WatchResponse{}, history.WatchResponse{Err: gone}),
		watch(20, history.EndedByItself, history.WatchResponse{Err: gone}),
		watch(30, history.EndedByItself),
		watch(40, history.StillOpen),
		watch(150, history.EndedByItself),
	}}
	r.Measure()
	assert.Equal(t, Errors{"watch Unavailable": {2, gone.Error()}, "watch " + noReason: {Count: 1}}, r.Errors)
}

func TestDurationInTables(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 840 * time.Microsecond: "0.84 ms", 9996 * time.Microsecond: "10 ms", 100 * time.Millisecond: "100 ms",
		999600 * time.Microsecond: "1 s", 12345 * time.Millisecond: "12.3 s", 123 * time.Second: "123 s",
	} {
		assert.Equal(t, want, duration(d), d.String())
	}
}
