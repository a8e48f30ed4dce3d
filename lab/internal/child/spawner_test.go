//go:build unix

package child_test

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStartFails(t *testing.T) {
	s := newSpawner(t)
	_, err := s.Start(exec.Command("/nonexistent/program"))
	require.ErrorIs(t, err, os.ErrNotExist)
	e := runEcho(t, s.Start)
	e.tell(t, "the next one starts\n")
	e.requireAnswer(t, "the next one starts\n")
}

func TestStartConcurrently(t *testing.T) {
	s := newSpawner(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p, err := s.Start(exec.Command("sh", "-c", "exit 3"))
			if !assert.NoError(t, err) {
				return
			}
			<-p.Exited()
			assert.EqualError(t, p.Cause(), "exit status 3")
		})
	}
	wg.Wait()
}
