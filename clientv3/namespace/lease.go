package namespace

import (
	"context"
	"strings"

	"github.com/quorate/quorate/clientv3"
)

type leasePrefix struct {
	clientv3.Lease
	prefix string
}

// NewLease returns a Lease whose TimeToLive lists only those attached keys that begin
// with prefix, without it. Leases themselves belong to no namespace: Leases lists
// all, and Revoke deletes the keys that are attached elsewhere, too.
func NewLease(l clientv3.Lease, prefix string) clientv3.Lease {
	return &leasePrefix{Lease: l, prefix: prefix}
}

func (l *leasePrefix) TimeToLive(ctx context.Context, id clientv3.LeaseID, opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	resp, err := l.Lease.TimeToLive(ctx, id, opts...)
	if err != nil || len(resp.Keys) == 0 {
		return resp, err
	}
	own := *resp
	own.Keys = nil
	for _, key := range resp.Keys {
		if name, inside := strings.CutPrefix(string(key), l.prefix); inside && name != "" {
			own.Keys = append(own.Keys, []byte(name))
		}
	}
	return &own, nil
}
