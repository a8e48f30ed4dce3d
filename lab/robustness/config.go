package robustness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/fault"
)

// Defaults of a Config.
const (
	DefaultDuration = time.Minute
	DefaultMembers  = 3
)

// maxDuration is for how long faults may be injected.
const maxDuration = time.Hour

// Config has the settings that all runs share. Fields that are zero have their default.
type Config struct {
	// Duration is how long faults are injected, at most an hour. To start, to settle and to check takes some ten or twenty
	// seconds more. Default one minute.
	Duration time.Duration
	// Members of the cluster, 3 to 9. Default 3.
	Members int
	// Seed of every choice: faults, keys, operations. Two runs of a seed choose alike and still differ, because time is
	// real.
	Seed uint64
	// Dir is where the cluster keeps its files while it runs. Default os.TempDir().
	Dir string
	// Log, if set, gets lines on what is being done to the cluster.
	Log io.Writer
	// Counts, if set, receives the counts of the run while it goes on.
	Counts *Counts
}

// Number is a setting of a workload that must be above 0.
type Number struct {
	// Value is where the setting is; 0 stands for the default.
	Value *int
	// Name of the setting, in errors and as a flag.
	Name string
	// Default and Max of the setting.
	Default, Max int
	// Usage says in a few words what it is.
	Usage string
}

// Common returns what all runs have.
func (c *Config) Common() *Config { return c }

// Complete sets the defaults, including those of numbers, and returns the errors so far.
func (c *Config) Complete(numbers ...Number) *Check {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Counts = cmp.Or(c.Counts, &Counts{})
	if c.Log == nil {
		c.Log = io.Discard
	}
	check := &Check{}
	check.Members(c.Members)
	check.That(c.Duration > 0 && c.Duration <= maxDuration, "the duration must be more than 0 and at most %v; it is %v", maxDuration, c.Duration)
	for _, n := range numbers {
		*n.Value = cmp.Or(*n.Value, n.Default)
		check.Number(n.Name, *n.Value, n.Max)
	}
	return check
}

// Log is the log of a run, and its clock.
type Log struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

// NewLog returns the log of a run that begins now.
func NewLog(out io.Writer) *Log { return &Log{began: time.Now(), out: out} }

// Now returns the time since the run began.
func (l *Log) Now() time.Duration { return time.Since(l.began) }

// Note writes a line.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, "%7.1fs  %s\n", l.Now().Seconds(), text)
}

// maxMembers is the largest cluster that the lab starts.
const maxMembers = 9

// Check collects the errors of a configuration, so that its user learns of all at once. The zero value has none.
type Check struct{ wrong []error }

// That notes an error, unless ok.
func (c *Check) That(ok bool, format string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Errorf(format, args...))
	}
}

// Number notes a number of something that is not from 1 to limit.
func (c *Check) Number(of string, n, limit int) {
	c.That(n >= 1 && n <= limit, "the number of %s must be 1 to %d; it is %d", of, limit, n)
}

// Members notes a number of members that faults cannot be injected into.
func (c *Check) Members(n int) {
	c.That(n >= fault.MinMembers && n <= maxMembers, "the number of members must be %d to %d, so that a majority outlives the loss of one; it is %d",
		fault.MinMembers, maxMembers, n)
}

// Err returns all errors, nil if there are none.
func (c *Check) Err() error { return errors.Join(c.wrong...) }
