package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersion(t *testing.T) {
	assert.Contains(t, versionOf("quorate", &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
		},
	}), "quorate v1.2.3, revision abc123, with local changes\n")
	assert.Contains(t, versionOf("quorate", &debug.BuildInfo{}), "quorate (devel)\n")
}
