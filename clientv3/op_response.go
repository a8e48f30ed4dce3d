package clientv3

// OpResponse is the result of [KV.Do]: exactly one of its four responses is set,
// according to the operation.
type OpResponse struct {
	put *PutResponse
	get *GetResponse
	del *DeleteResponse
	txn *TxnResponse
}

// Put returns the response to a put, nil for any other operation.
func (op OpResponse) Put() *PutResponse { return op.put }

// Get returns the response to a get, nil for any other operation.
func (op OpResponse) Get() *GetResponse { return op.get }

// Del returns the response to a delete, nil for any other operation.
func (op OpResponse) Del() *DeleteResponse { return op.del }

// Txn returns the response to a transaction, nil for any other operation.
func (op OpResponse) Txn() *TxnResponse { return op.txn }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *PutResponse) OpResponse() OpResponse { return OpResponse{put: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *GetResponse) OpResponse() OpResponse { return OpResponse{get: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *DeleteResponse) OpResponse() OpResponse { return OpResponse{del: resp} }

// OpResponse wraps the response as [KV.Do] would return it.
func (resp *TxnResponse) OpResponse() OpResponse { return OpResponse{txn: resp} }
