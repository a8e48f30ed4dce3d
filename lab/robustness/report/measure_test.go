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
		out[i].Start, out[i].End = Duration(moments[i]*ms), Duration(moments[i+1]*ms)
	}
	return out
}

// call returns a put, from start to end.
func call(start, end time.Duration, o history.Outcome) Call {
	c := Call{Kind: history.Put, Operation: model.Operation{Call: start * ms, Return: end * ms, Outcome: o}}
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
		call(120, 140, history.Abandoned),
		call(150, 250, history.OK),
		call(210, 220, history.OK), // behind the last row
	}}
	r.Measure()
	healthy, stop := r.Rows[0].Calls[history.Put], r.Rows[1].Calls[history.Put]
	assert.Equal(t, []int64{1, 0, 1}, []int64{healthy.Completed, healthy.Errors, healthy.Unknown})
	assert.Equal(t, Duration(100*ms), healthy.Max)
	assert.Equal(t, []int64{1, 1, 0}, []int64{stop.Completed, stop.Errors, stop.Unknown})
	assert.Equal(t, Errors{"Unavailable": {2, "rpc error: code = Unavailable desc = of 90"}}, r.Errors)
}

func TestQuantiles(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(0, 1000)}
	for i := range time.Duration(100) {
		r.Calls = append(r.Calls, call(100, 101+i, history.OK))
	}
	r.Measure()
	c := r.Rows[0].Calls[history.Put]
	for got, want := range map[Duration]time.Duration{c.P50: 50 * ms, c.P99: 99 * ms} {
		assert.GreaterOrEqual(t, time.Duration(got), want)
		assert.LessOrEqual(t, time.Duration(got), want+want/1000)
	}
	assert.Equal(t, Duration(100*ms), c.Max)
	assert.Zero(t, r.Rows[0].Calls[history.Txn].P99)
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
			assert.Equal(t, Duration(tt.want*ms), r.Rows[0].Calls[history.Put].LongestGap)
		})
	}
}

func TestGapBelongsToTheRowItHappenedIn(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(0, 100, 130), Calls: []Call{call(50, 110, history.OK)}}
	r.Measure()
	stop, healed := r.Rows[0].Calls[history.Put], r.Rows[1].Calls[history.Put]
	assert.Equal(t, []Duration{Duration(100 * ms), Duration(20 * ms)}, []Duration{stop.LongestGap, healed.LongestGap})
	assert.Equal(t, []int64{1, 0}, []int64{stop.Completed, healed.Completed})
}

func TestWhatHappensUnderTheFault(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(10, 70), Calls: []Call{
		call(11, 15, history.OK), call(18, 22, history.OK), call(18, 23, history.Failed), call(25, 35, history.OK), call(25, 45, history.OK),
	}}
	r.Rows[0].Fault, r.Rows[0].Heal = Duration(20*ms), Duration(40*ms)
	r.Measure()
	assert.EqualValues(t, 2, r.Rows[0].Calls[history.Put].Held)

	r = Recording{Errors: Errors{}, Rows: rows(10, 70)}
	r.Rows[0].Fault = Duration(20 * ms)
	r.Measure()
	assert.Equal(t, r.Rows[0].End, r.Rows[0].Heal, "a fault that is not healed lasts as long as its row")
}

func TestLeases(t *testing.T) {
	r := Recording{Errors: Errors{}, Rows: rows(0, 10, 0)}
	r.LeaseLost("keepalive ended", nil)
	r.LeaseFailed(status.Error(codes.Unavailable, "no answer"))
	r.Current().End = 20
	assert.Nil(t, r.Current())
	r.LeaseLost("key gone", nil) // after the last row
	r.LeaseFailed(status.Error(codes.Unavailable, "no answer"))
	assert.Zero(t, r.Rows[0].LeasesLost)
	assert.EqualValues(t, 1, r.Rows[1].LeasesLost)
	assert.Equal(t, Errors{
		"lease keepalive ended": {Count: 1}, "lease Unavailable": {1, "rpc error: code = Unavailable desc = no answer"},
	}, r.Errors)
}

func TestOutsideDelay(t *testing.T) {
	write := func(acknowledged, delivered time.Duration) OutsideWrite {
		return OutsideWrite{acknowledged * ms, delivered * ms}
	}
	r := Recording{Errors: Errors{}, Rows: rows(0, 6, 11, 20), Outside: []OutsideWrite{
		write(1, 2),
		write(4, 3), // it may be delivered before it is acknowledged
		write(7, 0), // the delivery of a later one will do
		write(0, 0), // it failed
		write(8, 12),
		write(13, 13),
		write(17, 0), // undelivered until the end
	}}
	r.Measure()
	assert.Equal(t, []Duration{Duration(1 * ms), Duration(5 * ms), Duration(3 * ms)},
		[]Duration{r.Rows[0].OutsideDelay, r.Rows[1].OutsideDelay, r.Rows[2].OutsideDelay})
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

// delivery is a response that a reader took.
type delivery struct {
	reader int
	at     time.Duration
	events []change
}

// puts returns the events of puts of caller 0 by their numbers.
func puts(seqs ...int64) (events []change) {
	for _, seq := range seqs {
		key := fmt.Sprint("/p/put/0/", seq)
		events = append(events, change{key, key})
	}
	return events
}

// put returns a put of caller 0.
func put(seq int64, start, end time.Duration, o history.Outcome) Call {
	c := call(start, end, o)
	key := puts(seq)[0].key
	c.Keys, c.Request.Then = &[model.Keys]string{key}, []model.Act{{Verb: model.Write, Value: key}}
	return c
}

// txn returns a txn of caller 0.
func txn(seq int64, start, end time.Duration, o history.Outcome, applied bool) Call {
	c := call(start, end, o)
	c.Kind, c.Response.Succeeded = history.Txn, applied
	c.Keys = &[model.Keys]string{"/p/counter/0", fmt.Sprint("/p/txn/0/", seq)}
	c.Request.Then = []model.Act{{Verb: model.Write, Value: fmt.Sprint(seq)}, {Verb: model.Write, Key: 1, Value: c.Keys[1]}}
	return c
}

func counterAt(value int64) change { return change{"/p/counter/0", fmt.Sprint(value)} }

// watched measures three readers.
func watched(stretches []Row, calls []Call, deliveries ...delivery) []Row {
	r := Recording{Errors: Errors{}, Rows: stretches, Calls: calls, Readers: [][]history.Watch{{{}}, {{}}, {{}}}}
	for i, d := range deliveries {
		resp := history.WatchResponse{At: d.at * ms}
		for _, e := range d.events {
			resp.Events = append(resp.Events, history.Event{KeyValue: history.KeyValue{Key: e.key, Value: e.value, ModRevision: int64(i)}})
		}
		watch := &r.Readers[d.reader][0]
		watch.Responses = append(watch.Responses, resp)
	}
	r.measureWatches()
	return r.Rows
}

func TestDelayCountsFromTheAcknowledgement(t *testing.T) {
	for name, tt := range map[string]struct {
		call       Call
		deliveries []delivery
		delay      time.Duration
	}{
		"after it":                    {put(0, 10, 20, history.OK), []delivery{{1, 27, puts(0)}}, 7},
		"before it":                   {put(0, 10, 20, history.OK), []delivery{{1, 15, puts(0)}}, 0},
		"an unknown outcome has none": {put(0, 10, 20, history.Unknown), []delivery{{1, 27, puts(0)}}, 0},
		"a second delivery":           {put(0, 10, 20, history.OK), []delivery{{1, 27, puts(0)}, {1, 50, puts(0)}}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			row := watched(rows(0, 100), []Call{tt.call}, tt.deliveries...)[0]
			assert.Positive(t, row.Events)
			assert.Equal(t, Duration(tt.delay*ms), row.EventDelay)
		})
	}
}

func TestEventsBelongToTheRowOfTheirWrite(t *testing.T) {
	got := watched(rows(0, 100, 200, 300),
		[]Call{put(0, 10, 20, history.OK), put(1, 30, 40, history.OK), put(2, 160, 170, history.OK), put(3, 400, 410, history.OK)},
		delivery{0, 150, puts(0)}, delivery{1, 310, puts(0, 2)})
	assert.EqualValues(t, 2, got[0].Events)
	assert.Equal(t, Duration(290*ms), got[0].EventDelay)
	assert.EqualValues(t, 1, got[1].Events)
	assert.Zero(t, got[2].Events)
}

func TestEventsOfOthersDoNotCount(t *testing.T) {
	unknown := delivery{0, 20, []change{{"/p/txn/7/0", "/p/txn/7/0"}}}
	assert.Zero(t, watched(rows(0, 100), []Call{put(0, 10, 20, history.Failed)}, unknown, delivery{0, 20, puts(0)})[0].Events)
}

func TestTxnsWriteTheirCounterToo(t *testing.T) {
	calls := []Call{txn(1, 10, 20, history.OK, true), txn(2, 20, 30, history.OK, false)}
	row := watched(rows(0, 100), calls, delivery{0, 22, []change{counterAt(1), {"/p/txn/0/1", "/p/txn/0/1"}}}, delivery{2, 24, []change{counterAt(1), counterAt(2)}})[0]
	assert.EqualValues(t, 3, row.Events)
	assert.Equal(t, Duration(4*ms), row.EventDelay)
}

func TestEndedWatches(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	watch := func(ended time.Duration, end history.Ending, responses ...history.WatchResponse) history.Watch {
		return history.Watch{Ended: ended * ms, End: end, Responses: responses}
	}
	r := Recording{Errors: Errors{}, Rows: rows(0, 100), Readers: [][]history.Watch{{
		watch(10, history.EndedByItself, history.WatchResponse{}, history.WatchResponse{Err: gone}),
		watch(20, history.EndedByItself, history.WatchResponse{Err: gone}),
		watch(30, history.EndedByItself),
		watch(40, history.StillOpen),
		watch(150, history.EndedByItself),
	}}}
	r.Measure()
	assert.Equal(t, Errors{"watch Unavailable": {2, gone.Error()}, "watch " + noReason: {Count: 1}}, r.Errors)
}

func TestDurationInTables(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 840 * time.Microsecond: "0.84 ms", 9996 * time.Microsecond: "10 ms", 100 * time.Millisecond: "100 ms",
		999600 * time.Microsecond: "1 s", 12345 * time.Millisecond: "12.3 s", 123 * time.Second: "123 s",
	} {
		assert.Equal(t, want, Duration(d).String(), d.String())
	}
}
