//go:build !unix

package cases

import "time"

// cpuTime returns 0: no cluster starts on these platforms.
func cpuTime() time.Duration { return 0 }
