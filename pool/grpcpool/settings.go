package grpcpool

import (
	"encoding/binary"
	"math"
)

// Constants of RFC 9113: the frame header (4.1), the SETTINGS frame (6.5) and the GOAWAY frame
// (6.8).
const (
	frameHeaderLen             = 9
	frameSettings         byte = 0x4
	frameGoAway           byte = 0x7
	flagAck               byte = 0x1
	settingLen                 = 6
	settingMaxConcurrent       = 0x3
	unlimited                  = math.MaxUint32 // the limit of a server that sends none
	positionType               = 3
	positionFlags              = 4
	positionSettingValues      = 2
)

// settingsReader extracts the stream limit and GOAWAYs from the bytes that a server sends, which
// arrive in pieces of any size.
type settingsReader struct {
	// found is called with each limit that the server sets, and once with unlimited if it starts
	// without one.
	found func(limit uint32)
	// leaving is called with each GOAWAY.
	leaving func()

	buf      [frameHeaderLen]byte // of a frame header, or of a setting
	filled   int                  // bytes in buf
	left     int                  // remaining bytes of the payload
	inside   bool                 // the payload is that of a SETTINGS frame
	first    bool                 // it is the first frame
	limit    uint32               // the last one in this frame
	hasLimit bool                 // this frame has a limit
	frames   bool                 // there was a frame before
	off      bool                 // the peer does not speak HTTP/2
}

// read processes the next bytes.
func (r *settingsReader) read(p []byte) {
	for len(p) > 0 && !r.off {
		switch {
		case r.left > 0 && !r.inside: // a frame of another type
			n := min(len(p), r.left)
			r.left -= n
			p = p[n:]
		case r.left > 0:
			if p = r.fill(p, settingLen); r.filled == settingLen {
				r.filled = 0
				r.left -= settingLen
				r.setting()
			}
		default:
			if p = r.fill(p, frameHeaderLen); r.filled == frameHeaderLen {
				r.filled = 0
				r.header()
			}
		}
	}
}

// fill moves bytes of p to the buffer until it holds n, and returns the rest.
func (r *settingsReader) fill(p []byte, n int) []byte {
	moved := copy(r.buf[r.filled:n], p)
	r.filled += moved
	return p[moved:]
}

// header begins a frame. The first frame of a server must be SETTINGS, and the settings of a frame
// must be complete; otherwise the peer does not speak HTTP/2.
func (r *settingsReader) header() {
	r.left = int(r.buf[0])<<16 | int(r.buf[1])<<8 | int(r.buf[2])
	settings := r.buf[positionType] == frameSettings && r.buf[positionFlags]&flagAck == 0
	r.first, r.frames = !r.frames, true
	r.inside, r.hasLimit = settings, false
	if (r.first && !settings) || (settings && r.left%settingLen != 0) {
		r.off = true
		return
	}
	if settings && r.left == 0 {
		r.markDone()
	}
	if r.buf[positionType] == frameGoAway {
		r.leaving()
	}
}

func (r *settingsReader) setting() {
	if binary.BigEndian.Uint16(r.buf[:]) == settingMaxConcurrent {
		r.limit, r.hasLimit = binary.BigEndian.Uint32(r.buf[positionSettingValues:]), true
	}
	if r.left == 0 {
		r.markDone()
	}
}

// markDone is called at the end of a SETTINGS frame.
func (r *settingsReader) markDone() {
	switch {
	case r.hasLimit:
		r.found(r.limit)
	case r.first:
		r.found(unlimited)
	}
}
