package grpcpool

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// frame returns the bytes of an HTTP/2 frame on stream 0.
func frame(kind, flags byte, payload ...byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(append(header, flags, 0, 0, 0, 0), payload...)
}

// setting returns the bytes of one setting in a SETTINGS frame.
func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

func settings(s ...[]byte) []byte { return frame(0x4, 0, slices.Concat(s...)...) }

func limit(n uint32) []byte { return setting(0x3, n) }

func TestSettingsReader(t *testing.T) {
	window := setting(0x4, 7) // the initial size of a stream's window
	ping := frame(0x6, 0, make([]byte, 8)...)
	for _, tt := range []struct {
		name   string
		stream []byte
		want   []uint32
	}{
		{"alone", settings(limit(100)), []uint32{100}},
		{"among others", settings(window, limit(128), window), []uint32{128}},
		{"nothing", nil, nil},
		{"no limit", settings(window), []uint32{unlimited}},
		{"empty", settings(), []uint32{unlimited}},
		{"the last of two", settings(limit(1), limit(2)), []uint32{2}},
		{"zero", settings(limit(0)), []uint32{0}},
		{"changed among other frames", slices.Concat(
			settings(limit(10)),
			frame(0x4, 0x1), // an acknowledgement
			frame(0x0, 0x1, bytes.Repeat(settings(limit(99)), 500)...), // data that looks like settings
			ping,
			settings(window),
			settings(limit(20)),
		), []uint32{10, 20}},
		{"not HTTP/2", slices.Concat(ping, settings(limit(10))), nil},
		{"incomplete setting", slices.Concat(settings(limit(10)), frame(0x4, 0, 1, 2, 3), settings(limit(11))), []uint32{10}},
		{"HTTP/1", []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, limits(tt.stream, func(left int) int { return left }), "in one piece")
			assert.Equal(t, tt.want, limits(tt.stream, func(int) int { return 1 }), "byte by byte")
		})
	}
}

// limits returns what a reader finds in bytes that arrive in pieces.
func limits(stream []byte, piece func(left int) int) []uint32 {
	var found []uint32
	r := settingsReader{found: func(limit uint32) { found = append(found, limit) }, leaving: func() {}}
	for len(stream) > 0 {
		n := piece(len(stream))
		r.read(stream[:n])
		stream = stream[n:]
	}
	return found
}

// The result does not depend on the size of the pieces.
func FuzzSettingsReader(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add(slices.Concat(settings(limit(5)), frame(0x0, 0, 1, 2, 3), settings(limit(6))), uint64(1))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		got := limits(stream, func(left int) int { return 1 + rng.IntN(min(left, 12)) })
		assert.Equal(t, wholeLimits(stream), got)
	})
}

// wholeLimits is the reference: it reads complete frames.
func wholeLimits(stream []byte) []uint32 {
	var found []uint32
	for first := true; len(stream) >= 9; first = false {
		length := int(binary.BigEndian.Uint32(append([]byte{0}, stream[:3]...)))
		isSettings := stream[3] == 0x4 && stream[4]&0x1 == 0
		stream = stream[9:]
		if (first && !isSettings) || (isSettings && length%6 != 0) || length > len(stream) {
			return found
		}
		if isSettings {
			announced, last := first, uint32(unlimited)
			for s := stream[:length]; len(s) > 0; s = s[6:] {
				if binary.BigEndian.Uint16(s) == 0x3 {
					announced, last = true, binary.BigEndian.Uint32(s[2:])
				}
			}
			if announced {
				found = append(found, last)
			}
		}
		stream = stream[length:]
	}
	return found
}
