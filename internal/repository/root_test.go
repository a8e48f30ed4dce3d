package repository

import "testing"

// atRoot lets a test name files as seen from the root of the repository. Package testing must see the change of the folder: by
// the files that a test reads, go test knows whether a cached result is valid.
func atRoot(t *testing.T) { t.Chdir("../..") }
