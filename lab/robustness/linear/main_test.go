package linear

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}
