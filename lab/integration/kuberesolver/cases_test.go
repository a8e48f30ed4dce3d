package kuberesolver_test

import "testing"

// cases are what must hold on every API server.
var cases = map[string]func(*testing.T, *scene){
	"a touch of one slice leaves the others":   touchOneSlice,
	"a slice is deleted":                       deleteOneSlice,
	"scaled to zero and back":                  scaleToZero,
	"nothing there at first":                   nothingAtFirst,
	"both families of a pod are one endpoint":  dualStack,
	"zone hints":                               zoneHints,
	"terminating pods":                         terminatingPods,
	"the manifest suffices":                    manifestSuffices,
	"the manifest for all namespaces suffices": clusterManifestSuffices,
	"a change is seen at once":                 changeSeen,
	"watches end again and again":              watchesEnd,
	"history is gone after a compaction":       historyGone,
	"the API server is killed":                 serverKilled,
	"the API server stands still":              serverStopped,
	"the role is removed and restored":         roleRemoved,
	"a new token":                              newToken,
	"the channel sleeps and wakes":             channelSleeps,
	"closed while the API server stands still": closedWhileStopped,
}

func TestFake(t *testing.T) {
	runCases(t, func(t *testing.T) server { return startFake(t) })
}

func TestReal(t *testing.T) {
	shared := startReal(t)
	runCases(t, func(*testing.T) server { return shared })
}
