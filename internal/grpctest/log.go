package grpctest

import (
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc/grpclog"
)

// Log has the lines of one component in gRPC's log.
type Log struct {
	component string
	mu        sync.Mutex
	lines     []line
}

type line struct{ severity, text string }

// NewLog returns a Log, to which gRPC writes from now on. It is called before tests run.
func NewLog(component string) *Log {
	l := &Log{component: "[" + component + "]"}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(l, io.Discard, io.Discard)) // the first gets every line
	return l
}

// Write adds a line of gRPC's log.
func (l *Log) Write(b []byte) (int, error) {
	// A line begins with the time and the severity.
	if severity, text, ours := strings.Cut(string(b), l.component); ours {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line{severity, strings.TrimSpace(text)})
	}
	return len(b), nil
}

// About returns the lines that contain a text.
func (l *Log) About(text string) []string { return l.find("", text) }

// Warnings returns the warnings that contain a text.
func (l *Log) Warnings(text string) []string { return l.find("WARNING", text) }

func (l *Log) find(severity, text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line.severity, severity) && strings.Contains(line.text, text) {
			found = append(found, line.text)
		}
	}
	return found
}
