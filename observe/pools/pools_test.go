package pools_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/observe/pools"
	"github.com/quorate/quorate/pool"
	"github.com/quorate/quorate/pool/grpcpool"
)

// fill gives each number in a struct a value of its own, and returns how many there are.
func fill(v reflect.Value, next int) int {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			next = fill(f, next)
		case reflect.Uint64:
			f.SetUint(uint64(next))
			next++
		default:
			f.SetInt(int64(next))
			next++
		}
	}
	return next
}

// Every number of the statistics is a metric, except for what is of no use as one.
func TestEveryNumberIsAMetric(t *testing.T) {
	var s pool.Stats
	n := fill(reflect.ValueOf(&s).Elem(), 1)
	s.WaitTime *= time.Second
	all := pools.Of(s)
	values := make(map[float64]string)
	for _, m := range all {
		values[m.Value] = fmt.Sprint(m.Name, m.Labels)
		assert.NotEmpty(t, m.Description)
		assert.NotEmpty(t, m.Unit)
	}
	assert.Len(t, values, len(all), "each has a number of its own")
	assert.Len(t, all, n-1-2, "but for Size, which is a sum, and StaleReleases, which is of a mistake in the program")
}

func TestOfConnections(t *testing.T) {
	got := make(map[string]float64)
	for _, m := range pools.OfConnections(grpcpool.Stats{
		Unary: grpcpool.ClassStats{
			Connections: []grpcpool.ConnStats{{State: connectivity.Ready}, {State: connectivity.Ready}, {State: connectivity.Idle}},
			InFlight:    3, Waiting: 4, Calls: 5, Waited: 6, WaitTime: 7 * time.Second, Opened: 8, Closed: 9,
		},
	}) {
		if m.Value != 0 {
			got[fmt.Sprint(m.Name, m.Labels)] = m.Value
		}
	}
	assert.Equal(t, map[string]float64{
		"quorate.grpcpool.connections[{class unary} {state ready}]": 2,
		"quorate.grpcpool.connections[{class unary} {state idle}]":  1,
		"quorate.grpcpool.in_flight[{class unary}]":                 3,
		"quorate.grpcpool.waiting[{class unary}]":                   4,
		"quorate.grpcpool.calls[{class unary}]":                     5,
		"quorate.grpcpool.waited[{class unary}]":                    6,
		"quorate.grpcpool.wait_time[{class unary}]":                 7,
		"quorate.grpcpool.opened[{class unary}]":                    8,
		"quorate.grpcpool.closed[{class unary}]":                    9,
	}, got)
}
