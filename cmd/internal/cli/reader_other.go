//go:build !unix

package cli

import "os"

// noReader is not known here.
func noReader(*os.File) bool { return false }
