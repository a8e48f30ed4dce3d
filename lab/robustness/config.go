package robustness

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/internal/limits"
)

// Defaults of a Config.
const (
	DefaultDuration = time.Minute
	DefaultMembers  = 3
)

// Config is what all runs have. Fields that are zero have their default.
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
	// Counts, if set, has what the run counts, also while it goes on.
	Counts *Counts
}

// Complete sets the defaults, and notes what is wrong.
func (c *Config) Complete(check *limits.Check) {
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	c.Members = cmp.Or(c.Members, DefaultMembers)
	c.Counts = cmp.Or(c.Counts, &Counts{})
	if c.Log == nil {
		c.Log = io.Discard
	}
	check.Members(c.Members)
	check.Duration(c.Duration)
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
