//go:build experiment

package watches

import (
	"context"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/soak"
)

var officialFor = flag.Duration("official", 0, "how long to run with the official client; 0 skips it")

// officialClient connects through the official client.
func officialClient(endpoints []string) (Client, error) {
	c, err := official.New(official.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return theirs{c}, nil
}

type theirs struct {
	*official.Client
}

func (c theirs) Watch(ctx context.Context, r history.WatchRequest) Next {
	var opts []official.OpOption
	switch r.RangeEnd {
	case "":
	case "\x00":
		opts = append(opts, official.WithFromKey())
	default:
		opts = append(opts, official.WithRange(r.RangeEnd))
	}
	opts = append(opts, official.WithRev(r.StartRevision))
	for _, o := range []struct {
		wanted bool
		option official.OpOption
	}{
		{r.PrevKV, official.WithPrevKV()},
		{r.ProgressNotify, official.WithProgressNotify()},
		{r.CreatedNotify, official.WithCreatedNotify()},
		{r.Fragment, official.WithFragment()},
		{r.NoPut, official.WithFilterPut()},
		{r.NoDelete, official.WithFilterDelete()},
	} {
		if o.wanted {
			opts = append(opts, o.option)
		}
	}
	channel := c.Client.Watch(ctx, r.Key, opts...)
	return func(ctx context.Context) (history.WatchResponse, bool, error) {
		select {
		case response, open := <-channel:
			if !open {
				return history.WatchResponse{}, false, nil
			}
			return history.WatchResponse{
				Revision: response.Header.GetRevision(), Events: load.Events(response.Events),
				Created: response.Created, Canceled: response.Canceled, CompactRevision: response.CompactRevision,
				Err: response.Err(),
			}, true, nil
		case <-ctx.Done():
			return history.WatchResponse{}, false, ctx.Err()
		}
	}
}

// TestOfficial shows how the official client does under the same faults. What it
// breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	if *officialFor == 0 {
		t.Skip("run it with -official 5m")
	}
	result, err := Run(t.Context(), Config{
		Config:  soak.Config{Duration: *officialFor, Seed: *seed, Dir: t.TempDir(), Log: t.Output()},
		Connect: officialClient,
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
