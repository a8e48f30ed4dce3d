package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

func TestDeliveriesOfWritesPastTheLinks(t *testing.T) {
	r := newRun(Config{})
	r.rec.Outside = make([]report.OutsideWrite, 2)
	response := history.WatchResponse{At: time.Second}
	for _, value := range []string{"1", "2", "of another"} {
		response.Events = append(response.Events, history.Event{KeyValue: history.KeyValue{Value: value}})
	}
	r.deliveredOutside([]history.Watch{{Responses: []history.WatchResponse{response}}})
	assert.Zero(t, r.rec.Outside[0])
	assert.Equal(t, time.Second, r.rec.Outside[1].Delivered)
}

func TestWithoutAWatcherNothingIsWrittenPastTheLinks(t *testing.T) {
	assert.NoError(t, newRun(Config{}).startOutside(t.Context(), 1)())
}
