//go:build noserver

package lab

import (
	"fmt"
	"os"
)

func serve([]string) {
	fmt.Fprintln(os.Stderr, "lab: this program was built without etcd's server: set "+programEnv)
	os.Exit(1)
}
