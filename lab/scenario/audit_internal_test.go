package scenario

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/check"
	"github.com/quorate/quorate/lab/load"
)

// lister is a store that lists the same again and again.
type lister struct {
	load.Store
	listing load.Listing
}

func (l lister) List(context.Context, load.Page) (load.Listing, error) { return l.listing, nil }

func TestAuditRefusesWhatNoStoreLists(t *testing.T) {
	for want, listing := range map[string]load.Listing{
		"claims that there are more keys":                     {More: true},
		`read the writes back: key "/elsewhere" is not below`: {Keys: []load.Listed{{Key: "/elsewhere"}}},
	} {
		r := &run{checker: check.New(), seen: newSeen(1)}
		_, err := r.audit(t.Context(), lister{listing: listing})
		require.ErrorContains(t, err, want)
	}
}
