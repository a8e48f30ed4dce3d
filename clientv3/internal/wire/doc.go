// Package wire decodes watch responses with two allocations for each event,
// where proto.Unmarshal makes four, and seven if the event has a previous
// key-value pair.
//
// A busy watch does little but decode, and each allocation is one more thing to
// find for the garbage collector. proto.Unmarshal makes one for each Event, for
// each KeyValue, and for each key and value that is not empty. Here the messages
// of an event lie together in one block, and its keys and values in another.
// BenchmarkDecode compares the two, with keys of 32 bytes and values of 128;
// time is CPU time, garbage collection included, on two cores of a Xeon:
//
//	events   previous pair   proto.Unmarshal          this package
//	     1   no                 7 allocs, 0.9 µs         5 allocs, 0.8 µs
//	   100   no               410 allocs,  60 µs       203 allocs,  49 µs
//	  1000   no             4,013 allocs, 520 µs     2,003 allocs, 500 µs
//	     1   yes               10 allocs, 1.5 µs         5 allocs, 1.1 µs
//	   100   yes              710 allocs,  86 µs       203 allocs,  75 µs
//	  1000   yes            7,013 allocs, 870 µs     2,003 allocs, 830 µs
//
// The other three allocations are the response, its header and its list of
// events. The bytes allocated are the same or slightly fewer.
//
// # What a program may do with an event
//
// Everything that it may do with one from proto.Unmarshal. Events share nothing
// with each other or with gRPC's buffers, so that one that is kept holds no other
// in memory. The parts of one event stay in memory together: a program that keeps
// only a KeyValue keeps the previous pair with it, and one that keeps only a
// key keeps the value. Keys and values have no room to grow, so that to append
// to one copies it.
//
// # What is decoded here
//
// Messages that hold the fields of the released API and nothing else, which is
// all that etcd sends. As soon as anything else turns up (an unknown field, a
// wire type that is not the field's, a group, an event without a KeyValue, text
// that is not UTF-8, a length beyond the end) the whole message is left to
// proto.Unmarshal. So a newer server costs speed and no data, and what is
// invalid has proto.Unmarshal's error. FuzzDecode holds the two to the same
// result for any input.
package wire
