package command

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
)

// DefaultRepeat is how many samples are taken.
const DefaultRepeat = 5

// Flags are --run, --repeat and --short.
type Flags struct {
	// Repeat is how many samples are taken of each contender; 1 if Short is set and
	// --repeat is not given.
	Repeat int
	// Short asks for small sizes.
	Short bool

	pattern string
}

// Register adds the flags to fs.
func (f *Flags) Register(fs *flag.FlagSet, names []string) {
	fs.StringVar(&f.pattern, "run", "", "run only the cases whose name matches the `regexp`: "+strings.Join(names, ", "))
	fs.IntVar(&f.Repeat, "repeat", DefaultRepeat, "samples of each contender; fewer are taken of cases that take long")
	fs.BoolVar(&f.Short, "short", false, "small sizes, and one sample unless --repeat says otherwise")
}

// Parse parses args with fs, which has the flags, and returns whether a name is selected. The
// error says what is wrong with args, and that they select no name.
func (f *Flags) Parse(fs *flag.FlagSet, args, names []string) (selects func(name string) bool, err error) {
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	repeatSet := false
	fs.Visit(func(g *flag.Flag) { repeatSet = repeatSet || g.Name == "repeat" })
	if f.Short && !repeatSet {
		f.Repeat = 1
	}
	if f.Repeat < 1 {
		return nil, fmt.Errorf("--repeat must be 1 at least; it is %d", f.Repeat)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	matches, err := regexp.Compile(f.pattern)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	for _, name := range names {
		if matches.MatchString(name) {
			return matches.MatchString, nil
		}
	}
	return nil, fmt.Errorf("no case matches --run %q; there are %s", f.pattern, strings.Join(names, ", "))
}
