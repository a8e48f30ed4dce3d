package watches

import (
	"context"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
)

// Client is a client whose watches are put to the test.
type Client interface {
	client.Watcher
	// RequestProgress asks for bookmarks of the watches whose contexts have the
	// outgoing metadata of ctx.
	RequestProgress(ctx context.Context) error
	// Close ends the client and its watches.
	Close() error
}

// narrowBuffer bounds the watch buffers of one of the two clients, so that watches of
// slow readers are paused and resumed, which is rare with the default.
const narrowBuffer = 64 << 10

// connect connects two clients of Quorate: one with default policies, and one that pauses watches early.
func connect(endpoints []string) (clients []Client, err error) {
	for _, buffer := range []int{0, narrowBuffer} {
		c, err := quorate.Dial(clientv3.Config{Endpoints: endpoints, MaxWatchBufferBytes: buffer})
		if err != nil {
			return clients, err
		}
		clients = append(clients, quorate.Client{Client: c})
	}
	return clients, nil
}
