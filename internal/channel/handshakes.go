package channel

import (
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// handshakeMemory is the least time for which an address whose TLS handshake failed is tried after the others of its name.
const handshakeMemory = 10 * time.Minute

// handshakes remembers the addresses whose latest TLS handshake failed. TCP connects to them, so a name with
// several addresses would be tried at the same one forever.
type handshakes struct {
	mu     sync.Mutex
	failed map[string]time.Time
}

// ended records the result of a handshake with the peer of a connection.
func (h *handshakes) ended(conn net.Conn, err error) {
	addr := conn.RemoteAddr()
	if addr == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failed, addr.String())
		return
	}
	now := time.Now()
	maps.DeleteFunc(h.failed, func(_ string, at time.Time) bool { return now.Sub(at) > handshakeMemory })
	if h.failed == nil {
		h.failed = make(map[string]time.Time)
	}
	h.failed[addr.String()] = now
}

// order moves addresses whose handshake failed to the end, the latest last.
func (h *handshakes) order(addrs []string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(addrs, func(a, b string) int { return h.failed[a].Compare(h.failed[b]) })
}
