package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// port selects a port of a service: a name, a number, or, as the zero value, the first. A port of a slice has both.
type port struct {
	name   string
	number int32
}

func (p port) String() string {
	switch {
	case p.name != "":
		return fmt.Sprintf("port named %q", p.name)
	case p.number != 0:
		return fmt.Sprintf("port %d", p.number)
	}
	return "port"
}

func parsePort(text string) (port, error) {
	if text == "" {
		return port{}, fmt.Errorf("the port after the colon is empty: remove the colon for the first port")
	}
	if strings.Trim(text, "0123456789") == "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 || number > 65535 {
			return port{}, fmt.Errorf("port %s is not between 1 and 65535", text)
		}
		return port{number: int32(number)}, nil
	}
	if reasons := validation.IsDNS1123Label(text); len(reasons) > 0 {
		return port{}, fmt.Errorf("%q cannot be the name of a port: %s", text, reasons[0])
	}
	return port{name: text}, nil
}

// in returns the number of the port in a slice, or false if the slice does not have it. A number
// need not be in the slice: pods may listen on ports that no Service names.
func (p port) in(slice *discoveryv1.EndpointSlice) (int32, bool) {
	if p.number != 0 {
		return p.number, true
	}
	for i := range slice.Ports {
		if q := &slice.Ports[i]; usable(q) && (p.name == "" || ptr.Deref(q.Name, "") == p.name) {
			return *q.Port, true
		}
	}
	return 0, false
}

// usable reports whether a connection can be made to a port. The default protocol is TCP; a port
// without a number stands for all ports.
func usable(p *discoveryv1.EndpointPort) bool {
	return p.Port != nil && ptr.Deref(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
}

// declaredPorts returns the TCP ports of all slices, each once, by number.
func declaredPorts(set []*discoveryv1.EndpointSlice) []port {
	var all []port
	for _, slice := range set {
		for i := range slice.Ports {
			if p := &slice.Ports[i]; usable(p) {
				all = append(all, port{name: ptr.Deref(p.Name, ""), number: *p.Port})
			}
		}
	}
	slices.SortFunc(all, func(a, b port) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	return slices.Compact(all)
}

func joinPorts(ports []port) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		if texts[i] = strconv.Itoa(int(p.number)); p.name != "" {
			texts[i] = fmt.Sprintf("%s (%d)", p.name, p.number)
		}
	}
	return strings.Join(texts, ", ")
}
