package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// errNoReader ends a command whose output has no reader.
var errNoReader = errors.New("nobody reads what is shown")

// WhileRead returns a context that also ends when out is a pipe that has lost its reader, for commands that
// seldom write: a write would fail. stop frees it.
func WhileRead(ctx context.Context, out io.Writer) (while context.Context, stop func()) {
	while, cancel := context.WithCancelCause(ctx)
	if file, ok := out.(*os.File); ok {
		go func() {
			for pause.For(while, time.Second) == nil {
				if noReader(file) {
					cancel(errNoReader)
				}
			}
		}()
	}
	return while, func() { cancel(nil) }
}
