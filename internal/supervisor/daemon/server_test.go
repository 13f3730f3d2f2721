package daemon

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/pyro-mcp/pyro/internal/program"
)

// serverEnv is set to an address if this program must run as runServer.
const serverEnv = "PYRO_DAEMON_TEST_SERVER"

// runServer serves HTTP, and prints each request. The first three responses are errors, the others
// lead to an address that does not answer.
func runServer(address string) {
	var asked atomic.Int32
	err := http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Host, r.URL.RequestURI())
		if asked.Add(1) < 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(http.StatusFound)
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serving returns a command that runs runServer after a script.
func serving(address, script string) program.Command {
	c := sh(script + `exec "$TEST_PROGRAM"`)
	c.Env = []string{serverEnv + "=" + address, "TEST_PROGRAM=" + os.Args[0]}
	return c
}
