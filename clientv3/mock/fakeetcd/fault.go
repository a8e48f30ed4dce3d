package fakeetcd

import "context"

// ResetCode is an HTTP/2 error code (RFC 9113, section 7) for Call.ResetStream.
type ResetCode uint32

// The codes that proxies and servers use. The status is grpc-go's mapping.
const (
	// ResetInternal is INTERNAL_ERROR: codes.Internal.
	ResetInternal ResetCode = 0x2
	// ResetRefused is REFUSED_STREAM: the stream was not processed. grpc-go retries
	// the call once transparently, then reports codes.Unavailable.
	ResetRefused ResetCode = 0x7
	// ResetCancel is CANCEL: codes.Canceled, while the caller's context lives.
	ResetCancel ResetCode = 0x8
	// ResetEnhanceYourCalm is ENHANCE_YOUR_CALM: codes.ResourceExhausted.
	ResetEnhanceYourCalm ResetCode = 0xb
)

// BreakConn closes the connection of the call at once: no GOAWAY, no response, and
// every other call on it breaks too. Before Execute, the call is not executed,
// unless the hook calls Execute afterwards; after Execute, its response is lost.
// The client sees codes.Unavailable.
func (c *Call) BreakConn() {
	c.ended.Store(true)
	// Closing a pipe cannot fail.
	_ = c.conn.Close()
}

// ResetStream ends the call with an RST_STREAM frame, as a proxy may at any time.
// The connection stays open. The call is not executed, unless the hook calls
// Execute.
func (c *Call) ResetStream(code ResetCode) {
	c.ended.Store(true)
	c.conn.inject(resetFrame(c.id, code))
}

// Hold waits until release is closed or receives. It returns early, with an error,
// when the context of the call ends: the client cancelled, the connection broke, or
// the cluster was closed.
func (c *Call) Hold(release <-chan struct{}) error {
	select {
	case <-release:
		return nil
	case <-c.Context().Done():
		return context.Cause(c.Context())
	}
}
