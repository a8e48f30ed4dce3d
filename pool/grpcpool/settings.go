package grpcpool

import (
	"encoding/binary"
	"math"
)

// Constants of RFC 9113: the frame header (4.1), the SETTINGS frame (6.5) and the GOAWAY frame
// (6.8).
const (
	frameHeaderLen            = 9
	positionType              = 3
	positionFlags             = 4
	frameSettings        byte = 0x4
	frameGoAway          byte = 0x7
	flagAck              byte = 0x1
	settingLen                = 6
	positionSettingValue      = 2
	settingMaxConcurrent      = 0x3
	unlimited                 = math.MaxUint32 // the limit of a server that sends none
)

// settingsReader extracts the stream limit and GOAWAYs from the bytes that a server sends, which
// arrive in pieces of any size.
type settingsReader struct {
	// found is called with each limit that the server sets, and once with unlimited if it starts
	// without one.
	found func(limit uint32)
	// leaving is called with each GOAWAY.
	leaving func()

	frame   []byte // what has arrived of a header, and of its payload if that is settings
	payload int    // the length of those settings; 0 before the header is complete
	skip    int    // remaining bytes of another payload
	frames  bool   // there was a frame before
	off     bool   // the peer does not speak HTTP/2
}

// read processes the next bytes.
func (r *settingsReader) read(p []byte) {
	for len(p) > 0 && !r.off {
		if r.skip > 0 {
			n := min(len(p), r.skip)
			r.skip -= n
			p = p[n:]
			continue
		}
		n := min(len(p), frameHeaderLen+r.payload-len(r.frame))
		r.frame = append(r.frame, p[:n]...)
		p = p[n:]
		if len(r.frame) == frameHeaderLen+r.payload {
			r.process()
		}
	}
}

// process is called when the header of a frame is complete, and again when its settings are. The first frame of
// a server must be SETTINGS, and the settings of a frame must be complete; otherwise the peer does not speak HTTP/2.
func (r *settingsReader) process() {
	length := int(r.frame[0])<<16 | int(r.frame[1])<<8 | int(r.frame[2])
	settings := r.frame[positionType] == frameSettings && r.frame[positionFlags]&flagAck == 0
	switch {
	case !settings && !r.frames, settings && length%settingLen != 0:
		r.off = true
	case settings && r.payload < length:
		r.payload = length
		return
	case settings:
		r.processSettings(r.frame[frameHeaderLen:])
	default:
		r.skip = length
		if r.frame[positionType] == frameGoAway {
			r.leaving()
		}
	}
	r.frame, r.payload, r.frames = r.frame[:0], 0, true
}

// processSettings looks for the limit. If there are several, the last one counts.
func (r *settingsReader) processSettings(all []byte) {
	limit, known := uint32(unlimited), !r.frames
	for ; len(all) > 0; all = all[settingLen:] {
		if binary.BigEndian.Uint16(all) == settingMaxConcurrent {
			limit, known = binary.BigEndian.Uint32(all[positionSettingValue:]), true
		}
	}
	if known {
		r.found(limit)
	}
}
