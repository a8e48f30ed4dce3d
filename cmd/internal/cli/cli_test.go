package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersion(t *testing.T) {
	assert.Contains(t, versionOf("quorate", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}), "quorate v1.2.3\n")
	assert.Contains(t, versionOf("quorate", &debug.BuildInfo{}), "quorate (devel)\n")
}
