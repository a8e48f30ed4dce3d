package fakeetcd

import (
	"bytes"

	"golang.org/x/net/http2"
)

const frameHeaderSize = 9 // RFC 9113, section 4.1

// frameScanner follows the frames in one direction of a connection.
type frameScanner struct {
	skip    int    // bytes before the first frame
	partial []byte // of the frame that is not complete
}

// feed consumes the next bytes and calls done for each completed frame.
func (s *frameScanner) feed(p []byte, done func(http2.FrameHeader)) {
	n := min(s.skip, len(p))
	s.skip -= n
	s.partial = append(s.partial, p[n:]...)
	for {
		h, err := http2.ReadFrameHeader(bytes.NewReader(s.partial))
		end := frameHeaderSize + int(h.Length)
		if err != nil || len(s.partial) < end {
			return
		}
		s.partial = s.partial[end:]
		done(h)
	}
}

// between reports whether the last byte fed ended a frame.
func (s *frameScanner) between() bool { return len(s.partial) == 0 && s.skip == 0 }

func resetFrame(stream uint32, code ResetCode) []byte {
	var frame bytes.Buffer
	_ = http2.NewFramer(&frame, nil).WriteRSTStream(stream, http2.ErrCode(code)) // a buffer takes all
	return frame.Bytes()
}
