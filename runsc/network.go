package main

import (
	"net"
	"net/netip"
	"os"

	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket/netstack"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
)

const interfaceName = "eth0"

// links returns the configuration of a machine's network interfaces.
func links(o startConfig) boot.CreateLinksAndRoutesArgs {
	args := boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}, IsRestore: o.Restore, AllowConnectedOnSave: true}
	n := o.Network
	if n == nil {
		return args
	}
	args.FilePayload = urpc.FilePayload{Files: []*os.File{o.link}}
	// Without a queue, sending a datagram on a full link would never return. The sentry would wait
	// for an event that nothing sends.
	args.FDBasedLinks = []boot.FDBasedLink{{
		Name: interfaceName, InterfaceIndex: 2, MTU: n.MTU, LinkAddress: n.MAC, NumChannels: 1, IsPacket: []bool{false}, QDisc: config.QDiscFIFO,
		Addresses: []boot.IPWithPrefix{{Address: n.Address.Addr().AsSlice(), PrefixLen: n.Address.Bits()}, {Address: n.Address6.Addr().AsSlice(), PrefixLen: n.Address6.Bits()}},
		Routes:    []boot.Route{{Destination: netOf(n.Address)}, {Destination: netOf(n.Address6)}},
		Neighbors: []boot.Neighbor{{IP: n.Gateway.AsSlice(), HardwareAddr: n.GatewayMAC}, {IP: n.Gateway6.AsSlice(), HardwareAddr: n.GatewayMAC}},
	}}
	args.Defaultv4Gateway = defaultRoute(netip.IPv4Unspecified(), n.Gateway)
	args.Defaultv6Gateway = defaultRoute(netip.IPv6Unspecified(), n.Gateway6)
	return args
}

func defaultRoute(all netip.Addr, gateway netip.Addr) boot.DefaultRoute {
	return boot.DefaultRoute{Name: interfaceName, Route: boot.Route{Destination: netOf(netip.PrefixFrom(all, 0)), Gateway: gateway.AsSlice()}}
}

func netOf(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// cutConnections resets a resumed machine's connections to other hosts, because its new link does
// not know these connections. gVisor itself would end them as if the other hosts had closed them.
// Connections inside the machine survive.
func cutConnections(k *kernel.Kernel) {
	stack, ok := k.RootNetworkNamespace().Stack().(*netstack.Stack)
	if !ok {
		return
	}
	for _, e := range stack.Stack.RegisteredEndpoints() {
		connection, ok := e.(*tcp.Endpoint)
		if !ok {
			continue
		}
		to, err := connection.GetRemoteAddress()
		if err != nil {
			continue // the endpoint has no connection
		}
		from, err := connection.GetLocalAddress()
		if err == nil && to.Addr != from.Addr && !header.IsV4LoopbackAddress(to.Addr) && !header.IsV6LoopbackAddress(to.Addr) {
			connection.Abort()
		}
	}
}
