package faults

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

func TestDeliveriesOfWritesPastTheLinks(t *testing.T) {
	r := newRun(Config{})
	r.env = &robustness.Env{Log: robustness.NewLog(io.Discard)}
	r.rec.Outside = make([]report.OutsideWrite, 2)
	for _, value := range []string{"1", "2", "of another"} {
		r.deliveredOutside(history.Event{KeyValue: history.KeyValue{Value: value}})
	}
	assert.Zero(t, r.rec.Outside[0])
	assert.Positive(t, r.rec.Outside[1].Delivered)
}

func TestWithoutAWatcherNothingIsWrittenPastTheLinks(t *testing.T) {
	assert.NoError(t, newRun(Config{}).startOutside(t.Context(), 1)())
}
