package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/grpclog"
)

// record keeps the lines that this package writes to gRPC's log.
type record struct {
	grpclog.LoggerV2
	mu    sync.Mutex
	lines []string
}

func (r *record) add(severity string, args ...any) {
	line := fmt.Sprint(args...)
	if !strings.Contains(line, "[kubernetes-resolver]") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, severity+" "+line)
}

func (r *record) Info(args ...any)                    { r.add("info", args...) }
func (r *record) Infoln(args ...any)                  { r.add("info", args...) }
func (r *record) Infof(format string, args ...any)    { r.add("info", fmt.Sprintf(format, args...)) }
func (r *record) Warning(args ...any)                 { r.add("warning", args...) }
func (r *record) Warningln(args ...any)               { r.add("warning", args...) }
func (r *record) Warningf(format string, args ...any) { r.add("warning", fmt.Sprintf(format, args...)) }

// from returns a function that returns the later lines containing a text.
func (r *record) from() func(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := len(r.lines)
	return func(text string) []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(r.lines[first:]), func(line string) bool { return !strings.Contains(line, text) })
	}
}

var recorded = new(record)

func TestOutageIsTwoLines(t *testing.T) {
	about := recorded.from()
	server := startServer(t)
	s := slice("outage", "a", 80, "10.0.0.1")
	create(t, server, s)
	c := open(t, server, "kubernetes:///outage.shop")
	c.awaitCount(t, 1)
	server.Deny()
	server.EndWatches()
	require.NoError(t, server.Wait(within(t), "watch", 6))
	server.Allow()
	update(t, server, slice("outage", "a", 80, "10.0.0.2"))
	c.awaitAddresses(t, "10.0.0.2:80")
	lines := about(`"outage"`)
	require.Len(t, lines, 2)
	assert.True(t, strings.HasPrefix(lines[0], "warning"))
	assert.Contains(t, lines[0], "no permission to watch")
	assert.True(t, strings.HasPrefix(lines[1], "info"))
	assert.Contains(t, lines[1], "is followed again")

	server.EndWatches()
	update(t, server, slice("outage", "a", 80, "10.0.0.3"))
	c.awaitAddresses(t, "10.0.0.3:80")
	assert.Len(t, about(`"outage"`), 2, "the end of a watch is not an outage")
}

func TestWhatCallsDoNotShowIsLogged(t *testing.T) {
	about := recorded.from()
	server := startServer(t)
	create(t, server, slice("logged", "a", 80))
	c := open(t, server, "kubernetes:///logged.shop:8080")
	c.awaitCount(t, 0)
	c.awaitError(t, 0, "has no endpoints")
	update(t, server, slice("logged", "a", 80, "10.0.0.1"))
	c.awaitAddresses(t, "10.0.0.1:8080")
	update(t, server, slice("logged", "a", 80, "10.0.0.1", "10.0.0.2"))
	c.awaitCount(t, 2)
	assert.Len(t, about(`service "logged" in namespace "shop" has no endpoints`), 1)
	assert.Len(t, about(`service "logged" in namespace "shop" has endpoints`), 1)
	assert.Len(t, about(`the target asks for port 8080 of service "logged" in namespace "shop", and its pods have grpc (80)`), 1)
}
