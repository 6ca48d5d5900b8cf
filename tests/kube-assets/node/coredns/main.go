// CoreDNS with what a cluster's pods need of it, and without the plugins of clouds.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func main() {
	// In the order in which they see a request.
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
