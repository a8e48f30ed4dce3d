package balancer

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The clients of a proxy choose the names of methods.
func TestShapesAreBounded(t *testing.T) {
	all := new(shapes)
	endpoints := make([]latencies, 3)
	for i := range 3 * maxShapes {
		for j := range endpoints {
			assert.NotNil(t, endpoints[j].get(fmt.Sprint("/service/", j, "/", i), all))
		}
	}
	kept := 0
	all.byName.Range(func(any, any) bool { kept++; return true })
	assert.Equal(t, maxShapes+1, kept)
	for j := range endpoints {
		assert.LessOrEqual(t, len(*endpoints[j].byShape.Load()), maxShapes+1)
	}
	assert.Same(t, endpoints[0].get("/one", all), endpoints[0].get("/another", all))
}

// First calls at the same time count as one shape.
func TestShapesAreCountedOnce(t *testing.T) {
	for range 100 {
		var all shapes
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for i := range maxShapes / 2 {
					new(latencies).get(strconv.Itoa(i), &all)
				}
			})
		}
		calls.Wait()
		require.EqualValues(t, maxShapes/2, all.count.Load())
	}
}

func TestLatenciesOfAShapeAreKeptOnce(t *testing.T) {
	var shared shapes
	var a, b latencies
	x := a.get("x", &shared)
	assert.NotSame(t, x, a.get("y", &shared))
	assert.Same(t, x, a.get("x", &shared))
	assert.NotSame(t, x, b.get("x", &shared), "samples belong to the endpoint")
	assert.Same(t, x.Latency, b.get("x", &shared).Latency, "latencies are shared by shape")
}
