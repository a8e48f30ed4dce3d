package command

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var names = []string{"create", "idle", "replay"}

func parse(args string) (f Flags, selected []string, err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.Register(fs, names)
	selects, err := f.Parse(fs, strings.Fields(args), names)
	for _, name := range names {
		if selects != nil && selects(name) {
			selected = append(selected, name)
		}
	}
	return f, selected, err
}

func TestSelects(t *testing.T) {
	for args, want := range map[string]struct {
		repeat   int
		selected []string
	}{
		"":                         {DefaultRepeat, names},
		"--short":                  {1, names},
		"--short --repeat 3":       {3, names},
		"--run create|replay":      {DefaultRepeat, []string{"create", "replay"}},
		"--repeat 2 --run ^idle$ ": {2, []string{"idle"}},
	} {
		t.Run(args, func(t *testing.T) {
			f, selected, err := parse(args)
			require.NoError(t, err)
			assert.Equal(t, want.repeat, f.Repeat)
			assert.Equal(t, want.selected, selected)
		})
	}
}

func TestRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--repeat 0":  "--repeat must be 1 at least",
		"idle":        `unexpected argument "idle"`,
		"--run (":     "--run: ",
		"--run watch": "there are create, idle, replay",
		"--nosuch":    "nosuch",
	} {
		t.Run(args, func(t *testing.T) {
			_, _, err := parse(args)
			assert.ErrorContains(t, err, want)
		})
	}
}
