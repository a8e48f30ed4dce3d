package endpoint

import (
	"cmp"
	"net/url"
	"strings"
)

// DialTarget splits an Address into the network and address that net.Dial
// takes: "tcp" and "host:port", or "unix" and the path of a socket.
//
// An absolute path is read as the path of a URL, as gRPC and the etcd server
// do: escapes such as %20 are decoded, and what follows "?" or "#" is left
// out. A relative path is taken as it is.
func DialTarget(address string) (network, addr string) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "tcp", address
	}
	if !strings.HasPrefix(path, "/") {
		return "unix", path
	}
	u, err := url.Parse(address)
	if err != nil {
		return "unix", path
	}
	return "unix", cmp.Or(u.Path, u.Host)
}
