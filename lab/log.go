package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/quorate/quorate/lab/internal/child"
)

// logTail is how much of a member's log an error holds, in bytes.
const logTail = 2 << 10

// output is a writer that the members of a cluster share.
type output struct {
	mu sync.Mutex
	to io.Writer
}

// memberLog takes the output of one run of a member.
type memberLog struct {
	file   *os.File
	start  int64     // where this run begins in the file
	writer io.Writer // the file, and the shared output if there is one
}

// openLog appends to a file and, unless it is nil, writes to a shared output too.
func openLog(path, name string, shared *output) (*memberLog, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lab: log of %s: %w", name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lab: log of %s: %w", name, err), file.Close())
	}
	l := &memberLog{file: file, start: info.Size(), writer: file}
	if shared != nil {
		l.writer = io.MultiWriter(file, &prefixer{shared: shared, prefix: name})
	}
	return l, nil
}

func (l *memberLog) close() error { return l.file.Close() }

// tail returns the last bytes of this run's log, for an error. It works after
// close.
func (l *memberLog) tail() string {
	return child.Tail(l.file.Name(), l.start, logTail)
}

// prefixer writes whole lines to a shared output, each with a prefix.
type prefixer struct {
	shared *output
	prefix string
	line   []byte // the beginning of a line whose end has not come yet
}

// Write never fails: a log that cannot be written must not end the member that
// writes it.
func (p *prefixer) Write(b []byte) (int, error) {
	p.line = append(p.line, b...)
	for {
		line, rest, found := bytes.Cut(p.line, []byte("\n"))
		if !found {
			return len(b), nil
		}
		p.shared.mu.Lock()
		_, _ = fmt.Fprintf(p.shared.to, "%s: %s\n", p.prefix, line)
		p.shared.mu.Unlock()
		p.line = rest
	}
}
