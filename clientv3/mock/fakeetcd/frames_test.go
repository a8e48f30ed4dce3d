package fakeetcd

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFrameScanner feeds the same bytes in pieces of every size.
func TestFrameScanner(t *testing.T) {
	frames := []frame{
		{length: 3, kind: frameHeaders, stream: 1},
		{length: 0, kind: 0x4, stream: 0},
		{length: 300, kind: frameData, stream: 1<<31 - 1},
		{length: 4, kind: frameRSTStream, stream: 5},
	}
	var wire bytes.Buffer
	wire.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	for _, f := range frames {
		wire.Write([]byte{byte(f.length >> 16), byte(f.length >> 8), byte(f.length), f.kind, 0xff})
		// The highest bit of the stream id is reserved, and must be ignored.
		wire.Write([]byte{byte(f.stream>>24) | 0x80, byte(f.stream >> 16), byte(f.stream >> 8), byte(f.stream)})
		wire.Write(bytes.Repeat([]byte{0xee}, f.length))
	}
	for size := 1; size <= wire.Len(); size++ {
		scanner := frameScanner{skip: prefaceSize}
		var got []frame
		for rest := wire.Bytes(); len(rest) > 0; {
			n := min(size, len(rest))
			scanner.feed(rest[:n], func(f frame) { got = append(got, f) })
			rest = rest[n:]
		}
		assert.Equal(t, frames, got, "pieces of %d bytes", size)
		assert.True(t, scanner.between())
		scanner.feed([]byte{0}, nil)
		assert.False(t, scanner.between())
	}
}

func TestResetFrame(t *testing.T) {
	want := []byte{0, 0, 4, frameRSTStream, 0, 0, 0, 1, 2, 0, 0, 0, 8}
	assert.Equal(t, want, resetFrame(0x102, ResetCancel))
}
