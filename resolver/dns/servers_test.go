package dns

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A silent server is skipped while another one answers; from time to time one query tries it.
func TestSilentServersAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "udp 192.0.2.1:53", "udp 192.0.2.2:53"
		var s servers
		require.False(t, s.passOver(first))
		s.wasSilent(first)
		require.False(t, s.passOver(first), "no other server is known to answer")
		s.answered(second)
		require.True(t, s.passOver(first))
		require.False(t, s.passOver(second))

		time.Sleep(silentFor)
		require.False(t, s.passOver(first), "it is tried")
		require.True(t, s.passOver(first), "by one query")
		s.wasSilent(first)
		require.True(t, s.passOver(first))

		s.wasSilent(second)
		require.False(t, s.passOver(first), "no server answers")
		require.False(t, s.passOver(second))
		s.answered(first)
		require.True(t, s.passOver(second))
		s.forget()
		require.False(t, s.passOver(second))

		s.wasSilent(first)
		s.answered(second)
		s.answered(first)
		require.False(t, s.passOver(first))
	})
}
