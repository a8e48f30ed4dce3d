package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/resolver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

type serviceKey struct{ namespace, name string }

func (k serviceKey) String() string {
	return fmt.Sprintf("service %q in namespace %q", k.name, k.namespace)
}

type serviceTarget struct {
	service serviceKey
	port    port
}

// authority is the server name in TLS and in the :authority header: the service's short DNS name,
// and the port if it is a number.
func (d serviceTarget) authority() string {
	name := d.service.name + "." + d.service.namespace
	if d.port.number != 0 {
		return name + ":" + strconv.Itoa(int(d.port.number))
	}
	return name
}

const grammar = `write "kubernetes:///service.namespace:port", where the namespace and the port (a name or a pod's port number) can be left out`

// parseTarget parses a target. The error quotes it and describes the valid form.
func parseTarget(t resolver.Target, namespace string) (serviceTarget, error) {
	d, err := interpret(t, namespace)
	if err != nil {
		return serviceTarget{}, fmt.Errorf("kubernetes: target %q: %w", t.URL.Redacted(), err)
	}
	return d, nil
}

func interpret(t resolver.Target, namespace string) (serviceTarget, error) {
	u := t.URL
	switch {
	case u.User != nil:
		return serviceTarget{}, errors.New(`"@" has no meaning in it: ` + grammar)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return serviceTarget{}, errors.New(`"?" and "#" have no meaning in it: ` + grammar)
	}
	path := strings.TrimPrefix(u.Path, "/")
	if u.Opaque != "" {
		path = u.Opaque
	}
	switch {
	case u.Host == "":
		return interpretName(path, "", namespace)
	case path == "":
		return interpretName(u.Host, "", namespace)
	case strings.Contains(u.Host, ":"):
		return serviceTarget{}, fmt.Errorf(`it has a port after the authority %q and a path besides, so one of them would be ignored: `+grammar, u.Host)
	}
	return interpretName(path, u.Host, namespace)
}

// interpretName parses service[.namespace[.anything]][:port]. A non-empty authority is the
// namespace; a namespace in the name must be the same.
func interpretName(name, authority, namespace string) (serviceTarget, error) {
	if name == "" {
		return serviceTarget{}, errors.New("it names no service: " + grammar)
	}
	if strings.Contains(name, "/") {
		return serviceTarget{}, fmt.Errorf(`%q has a "/" in it: `+grammar, name)
	}
	host, portText, hasPort := strings.Cut(name, ":")
	if strings.Contains(portText, ":") {
		return serviceTarget{}, fmt.Errorf(`%q has two colons: `+grammar, name)
	}
	labels := strings.SplitN(host, ".", 3)
	inName := ""
	if len(labels) > 1 {
		if inName = labels[1]; inName == "" {
			return serviceTarget{}, fmt.Errorf("the namespace after the first dot of %q is empty: %s", host, grammar)
		}
	}
	if authority != "" {
		if inName != "" && inName != authority {
			return serviceTarget{}, fmt.Errorf("it names two namespaces, %q and %q: remove one of them", authority, inName)
		}
		inName = authority
	}
	if inName != "" {
		namespace = inName
	}
	d := serviceTarget{service: serviceKey{namespace: namespace, name: labels[0]}}
	if err := d.service.validate(); err != nil {
		return serviceTarget{}, err
	}
	if !hasPort {
		return d, nil
	}
	p, err := parsePort(portText)
	d.port = p
	return d, err
}

// validate rejects invalid names of services and namespaces. A valid name has no special meaning
// in a selector.
func (k serviceKey) validate() error {
	if reasons := validation.IsDNS1123Label(k.name); len(reasons) > 0 {
		return fmt.Errorf("%q cannot be the name of a service: %s", k.name, reasons[0])
	}
	if reasons := validation.IsDNS1123Label(k.namespace); len(reasons) > 0 {
		return fmt.Errorf("%q cannot be the name of a namespace: %s", k.namespace, reasons[0])
	}
	return nil
}

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
