package lab

import (
	"io"
	"os"
	"sync/atomic"
)

// memberProgram is argument 0 of a member that is this program started again.
// Unlike an environment variable it is not inherited by what the program starts in
// its turn.
const memberProgram = "quorate-lab-member"

// programEnv names another program whose main calls Main, such as quorate-lab, to be
// started as members. Tests with the race detector start one that is built without.
const programEnv = "QUORATE_LAB"

// parentPipeFD is the first descriptor that a member inherits after standard input,
// output and error: the read end of a pipe whose other end only the parent holds,
// so that it ends with the parent.
const parentPipeFD = 3

// mainCalled records that Main ran, without which a member would run the whole
// program again.
var mainCalled atomic.Bool

// Main turns the process into an etcd member if a cluster started it as one, and
// then does not return. In every other process it returns at once. It must be the
// first statement of main or TestMain in every program that starts clusters.
//
// If the environment variable QUORATE_LAB is the path of another program that calls
// Main, such as quorate-lab, members are that program. It saves a test with the race
// detector from running etcd with it. With the build tag noserver a program does not
// contain the server at all, and needs the variable.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != memberProgram {
		mainCalled.Store(true)
		return
	}
	go func() { // ends the process when the parent's end of the pipe closes
		_, _ = io.Copy(io.Discard, os.NewFile(parentPipeFD, "parentPipe"))
		os.Exit(1)
	}()
	serve(os.Args)
	os.Exit(0)
}
