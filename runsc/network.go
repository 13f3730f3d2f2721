package main

import (
	"net"
	"net/netip"
	"os"

	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
)

// network is what a machine's one interface is: eth0, alone on its link with a gateway. The link is a socket whose packets are Ethernet frames.
type network struct {
	MAC        net.HardwareAddr `json:"mac"`
	GatewayMAC net.HardwareAddr `json:"gateway_mac"`
	Address    netip.Prefix     `json:"address"`
	Gateway    netip.Addr       `json:"gateway"`
	Address6   netip.Prefix     `json:"address6"`
	Gateway6   netip.Addr       `json:"gateway6"`
	MTU        int              `json:"mtu"`
}

const interfaceName = "eth0"

// links are a machine's interfaces.
func links(o order) boot.CreateLinksAndRoutesArgs {
	args := boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}, IsRestore: o.Restore}
	n := o.Network
	if n == nil {
		return args
	}
	args.FilePayload = urpc.FilePayload{Files: []*os.File{o.link}}
	args.FDBasedLinks = []boot.FDBasedLink{{
		Name: interfaceName, InterfaceIndex: 2, MTU: n.MTU, LinkAddress: n.MAC, NumChannels: 1, IsPacket: []bool{false}, QDisc: config.QDiscNone,
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
