package fakeetcd

import "encoding/binary"

// The HTTP/2 frame types and sizes (RFC 9113, section 4.1 and 6) with which the
// fake tracks the delivery of responses.
const (
	frameData       = 0x0
	frameHeaders    = 0x1
	frameRSTStream  = 0x3
	frameHeaderSize = 9
	// prefaceSize is the length of the client's connection preface (section 3.4).
	prefaceSize = 24
)

type frame struct {
	length int
	kind   byte
	stream uint32
}

// frameScanner follows the frames in one direction of a connection.
type frameScanner struct {
	skip    int // bytes before the first frame
	header  [frameHeaderSize]byte
	have    int // bytes of header
	payload int // bytes still to come
	current frame
}

// feed consumes the next bytes and calls done for each completed frame.
func (s *frameScanner) feed(p []byte, done func(frame)) {
	n := min(s.skip, len(p))
	s.skip -= n
	p = p[n:]
	for len(p) > 0 {
		if s.have < frameHeaderSize {
			n := copy(s.header[s.have:], p)
			s.have += n
			p = p[n:]
			if s.have < frameHeaderSize {
				return
			}
			s.current = parseFrame(s.header)
			s.payload = s.current.length
		}
		n := min(s.payload, len(p))
		s.payload -= n
		p = p[n:]
		if s.payload == 0 {
			s.have = 0
			done(s.current)
		}
	}
}

// between reports whether the last byte fed ended a frame.
func (s *frameScanner) between() bool { return s.have == 0 && s.skip == 0 }

func parseFrame(h [frameHeaderSize]byte) frame {
	return frame{
		length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]),
		kind:   h[3],
		stream: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1),
	}
}

func resetFrame(stream uint32, code ResetCode) []byte {
	p := make([]byte, frameHeaderSize, frameHeaderSize+4)
	p[2] = 4
	p[3] = frameRSTStream
	binary.BigEndian.PutUint32(p[5:], stream)
	return binary.BigEndian.AppendUint32(p, uint32(code))
}
