package kube_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/kube"
)

// testTimeout is far above what any test takes; one that hangs is ended by it.
const testTimeout = 8 * time.Minute

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestBinaryIsMissing(t *testing.T) {
	t.Setenv(kube.BinaryEnv, "")
	_, err := kube.Start(t.Context(), kube.Config{})
	assert.ErrorContains(t, err, "make kube-apiserver")
	t.Setenv(kube.BinaryEnv, "/nonexistent/from-env")
	_, err = kube.Start(t.Context(), kube.Config{})
	assert.ErrorContains(t, err, "/nonexistent/from-env")
	_, err = kube.Start(t.Context(), kube.Config{Binary: "/nonexistent/kube-apiserver"})
	assert.ErrorContains(t, err, "/nonexistent/kube-apiserver")
}

// A program that is no API server ends, or prints something: the error shows it, and
// nothing stays behind.
func TestStartFailsWithTheLog(t *testing.T) {
	t.Setenv("LC_ALL", "C") // it prints in English
	dir := t.TempDir()
	_, err := kube.Start(grpctest.Within(t, testTimeout), kube.Config{Binary: "ls", Dir: dir})
	assert.ErrorContains(t, err, "exit status")
	assert.ErrorContains(t, err, "option", "what it printed")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
