package fakecheck_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// shown is how many differences a test reports. Those after the first are often its consequences.
const shown = 3

// requireAlike runs a program against both servers, at the same time, and fails the test if the transcripts differ. It
// returns that of etcd.
func requireAlike(t *testing.T, etcd, fake *grpc.ClientConn, run program) []entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sessions := []*session{newSession(ctx, etcd), newSession(ctx, fake)}
	var running sync.WaitGroup
	for _, s := range sessions {
		running.Go(func() { run(s) })
	}
	running.Wait()
	want, got := sessions[0].transcript, sessions[1].transcript
	require.NotEmpty(t, want)
	if ctx.Err() != nil {
		t.Errorf("a program was cut off, after %d calls and messages on etcd and %d on the fake", len(want), len(got))
	}
	differing := 0
	for i := range min(len(want), len(got)) {
		want[i].level()
		got[i].level()
		if want[i].equal(got[i]) {
			continue
		}
		t.Errorf("call %d (-etcd +fake):\n%s", i, cmp.Diff(want[i], got[i], protocmp.Transform()))
		if differing++; differing == shown {
			t.FailNow()
		}
	}
	require.Len(t, got, len(want), "calls and messages")
	return want
}

func newSession(ctx context.Context, conn *grpc.ClientConn) *session {
	return &session{ctx: ctx, conn: conn, tokens: make(map[string]string)}
}

// requireSeen fails the test unless the transcript has a success of every method and every error that are named: what
// never happened was not compared.
func requireSeen(t *testing.T, transcript []entry, methods []string, errs []error) {
	t.Helper()
	succeeded, failed := make(map[string]int), make(map[string]int)
	for _, e := range transcript {
		if e.Code == codes.OK {
			succeeded[e.Method]++
		} else {
			failed[e.Message]++
		}
	}
	for _, m := range methods {
		require.NotZero(t, succeeded[m], "no %s succeeded", m)
	}
	for _, err := range errs {
		require.NotZero(t, failed[message(err)], "no call failed with %q", message(err))
	}
	t.Logf("succeeded: %v\nfailed: %v", succeeded, failed)
}

// level removes from an entry what may differ.
func (e entry) level() {
	if e.Request != nil {
		level(e.Request)
	}
	for _, m := range e.Responses {
		level(m)
	}
}

// equal says the same as an empty cmp.Diff, in a small part of its time.
func (e entry) equal(other entry) bool {
	return e.Method == other.Method && e.User == other.User && proto.Equal(e.Request, other.Request) &&
		e.Code == other.Code && e.Message == other.Message &&
		slices.EqualFunc(e.Responses, other.Responses, proto.Equal)
}
