package kuberesolver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// noticed is the time after which a client must have found out that the API server
// stands still: several times what the resolver needs by its own settings.
const noticed = 90 * time.Second

// closeWithin is less than any of the times after which the resolver gives up a request.
const closeWithin = 10 * time.Second

// Watches end all the time, which is the ordinary way of an API server. Every change is
// seen, in order, and none of the ends is an error.
func watchesEnd(t *testing.T, s *scene) {
	const ends = 3
	require.NoError(t, s.shortenWatches(within(t, patience)))
	versions := pods(4, 50_000)
	s.set(t, s.slice("a", versions[0]))
	w := s.watch(t)
	w.awaitSize(t, 1)

	pace := time.NewTicker(2 * pollInterval)
	defer pace.Stop()
	last := 0
	for before := s.wire.count("watch"); s.wire.count("watch") < before+ends; {
		last++
		s.set(t, s.slice("a", versions[last]))
		w.awaitList(t, at(versions[last])...)
		<-pace.C
	}
	t.Logf("%d changes, %d watches", last, s.wire.count("watch"))
	require.Empty(t, w.reported(), "the end of a watch was reported as an error")
	require.Len(t, w.all(), last+1)
	for i, u := range w.all() {
		require.Equal(t, at(versions[i]), u.endpoints, "list %d", i)
	}
}

// The API server is killed, its history is compacted past the last change that a client
// saw, and it is restarted: it refuses to go on from there.
func historyGone(t *testing.T, s *scene) {
	s.set(t, s.slice("a", pods(1, 2)...))
	w := s.watch(t)
	w.awaitSize(t, 2)
	require.NoError(t, s.kill())
	require.NoError(t, s.forget(within(t, patience)))
	require.NoError(t, s.restart(within(t, patience)))
	s.set(t, s.slice("b", pods(3, 1)...))
	w.awaitSize(t, 3)
	w.requireSizes(t, 2, 3)
	require.Positive(t, s.wire.expirations(), "the API server never refused to go on: the case shows nothing")
	require.Equal(t, []string{"watch"}, s.wire.seen())
}

// While the API server is gone, calls go on with what is known, and the channel gets an error.
// What changes afterwards is seen.
func serverKilled(t *testing.T, s *scene) {
	addresses := pods(9, 3)
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[:2]...))
	w, conn := s.watch(t), f.connect(t, s.builder(t), s.target())
	w.awaitSize(t, 2)
	calls := keepCalling(t, conn)

	require.NoError(t, s.kill())
	w.awaitError(t, 0, service, "last known endpoints stay in use")
	callUntil(t, conn, at(addresses[0])[0])
	callUntil(t, conn, at(addresses[1])[0])
	require.NoError(t, s.restart(within(t, patience)))
	ready := time.Now()
	s.set(t, s.slice("a", addresses[2]))
	w.awaitList(t, at(addresses[2])...)
	t.Logf("a change is seen %v after the server is ready again", time.Since(ready).Round(time.Millisecond))
	callUntil(t, conn, at(addresses[2])[0])
	require.NoError(t, calls.end())
	w.requireSizes(t, 2, 1)
}

// An API server that stands still keeps its connections and answers nothing. Calls go
// on, and what changes afterwards is seen. If it lasts, the channel gets an error, and a new
// one gets an error that says why it cannot begin.
func serverStopped(t *testing.T, s *scene) {
	addresses := pods(9, 3)
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[:2]...))
	w, conn := s.watch(t), f.connect(t, s.builder(t), s.target())
	w.awaitSize(t, 2)
	calls := keepCalling(t, conn)

	require.NoError(t, s.stop())
	began := time.Now()
	over := time.After(*stopped)
	if *stopped >= noticed {
		w.awaitError(t, 0, service, "last known endpoints stay in use")
		t.Logf("reported after %v", time.Since(began).Round(time.Millisecond))
		_, err := call(within(t, patience), f.connect(t, s.builder(t), s.target()))
		require.ErrorContains(t, err, "endpointslices")
	}
	<-over
	require.NoError(t, s.resume())
	awake := time.Now()
	s.set(t, s.slice("a", addresses[2]))
	w.awaitList(t, at(addresses[2])...)
	t.Logf("a change is seen %v after the server woke from %v", time.Since(awake).Round(time.Millisecond), *stopped)
	callUntil(t, conn, at(addresses[2])[0])
	require.NoError(t, calls.end())
	w.requireSizes(t, 2, 1)
}

// A resolver is closed at once whatever the API server does: while it is watching, and
// while it waits for a first answer.
func closedWhileStopped(t *testing.T, s *scene) {
	f := newFleet(t, pods(9, 1)...)
	s.set(t, s.slice("a", pods(9, 1)...))
	watching := f.connect(t, s.builder(t), s.target())
	mustCall(t, watching)
	require.NoError(t, s.stop())
	t.Cleanup(func() { require.NoError(t, s.resume()) })
	waiting := f.connect(t, s.builder(t), s.target())
	asked := s.wire.count("watch")
	waiting.Connect()
	eventually(t, func() bool { return s.wire.count("watch") > asked }, "the second resolver asks")

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = watching.Close()
		_ = waiting.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeWithin):
		require.FailNow(t, "Close waits for the API server")
	}
}

// The channel goes idle, which ends its resolver, and gets the current list when it wakes. A server that takes more than 0.3 s
// to answer is late: the first calls then go to the last known list.
func channelSleeps(t *testing.T, s *scene) {
	addresses := pods(9, 2)
	f := newFleet(t, addresses...)
	s.set(t, s.slice("a", addresses[0]))
	conn := f.connect(t, s.builder(t), s.target(), grpc.WithIdleTimeout(time.Second))
	for _, address := range []string{addresses[0], addresses[1], addresses[0]} {
		s.set(t, s.slice("a", address))
		callUntil(t, conn, at(address)[0])
		awaitIdle(t, conn)
		eventually(t, func() bool { return s.wire.opened() == 0 }, "no watch is open while the channel sleeps")
	}
}
