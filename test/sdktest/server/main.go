// Command server is an HTTP server for the tests of Workspace.DialContext. It listens on the
// address in its argument and prints "ready". It answers each request with the path and the body of
// the request.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s ", r.URL.Path)
		io.Copy(w, r.Body)
	})))
}
