//go:build !unix

package cli

import "os"

// noReader returns false: whether a pipe has a reader is known on Unix only.
func noReader(*os.File) bool { return false }
