package clientv3

// WithProgressNotify makes the server send an empty response to a watch without
// events, every ten minutes by default. Its header's revision says up to where the
// watch has received all events.
func WithProgressNotify() OpOption { return func(op *Op) { op.progressNotify = true } }

// WithCreatedNotify makes a watch deliver a response without events when the
// server has created it.
func WithCreatedNotify() OpOption { return func(op *Op) { op.createdNotify = true } }

// WithFilterPut excludes puts from a watch.
func WithFilterPut() OpOption { return func(op *Op) { op.filterPut = true } }

// WithFilterDelete excludes deletes from a watch.
func WithFilterDelete() OpOption { return func(op *Op) { op.filterDelete = true } }

// WithFragment lets the server split a watch response that is larger than its
// request limit (--max-request-bytes, 1.5 MiB by default, plus 512 KiB) into
// several. Watches of this client ask for that, merge what fits in three quarters of
// Config.MaxWatchBufferBytes, and deliver whole revisions. The option is needed over a WatchClient of
// the program, and by a client with a Config.MaxCallRecvMsgSize: without it, a larger response ends
// the watch with ResourceExhausted.
func WithFragment() OpOption { return func(op *Op) { op.fragment = true } }

// WithWatchBufLog makes a watch log when its responses wait long for a slow
// reader.
func WithWatchBufLog() OpOption { return func(op *Op) { op.watchBufLogEnabled = true } }
