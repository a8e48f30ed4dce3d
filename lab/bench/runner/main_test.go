package runner

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/internal/programs"
)

// built are the programs that the tests measure.
var built programs.Set

func TestMain(m *testing.M) {
	lab.Main()
	set, remove, err := programs.Build(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = set
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		remove()
		os.Exit(status)
	}))
}
