package preview

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pyro-mcp/pyro/internal/control"
	"github.com/pyro-mcp/pyro/internal/fault"
)

// problem is the content of an error page.
type problem struct {
	Title, Text, Hint string
}

const style = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:34rem;margin:15vh auto 0;padding:0 1rem}h1{font-size:1.25rem}p{margin:.5rem 0}`

var (
	styleHash = func() string {
		sum := sha256.Sum256([]byte(style))
		return base64.StdEncoding.EncodeToString(sum[:])
	}()
	page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>` + style + `</style>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{with .Hint}}<p>{{.}}</p>{{end}}
</html>
`))
	discard = log.New(io.Discard, "", 0) // the handler logs errors itself
)

// fail answers with a small page.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int, p problem) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; style-src 'sha256-"+styleHash+"'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		page.Execute(w, p)
	}
}

// hintTime bounds the search for ports that a page can name.
const hintTime = 2 * time.Second

// failWith answers a request that failed.
func (h *Handler) failWith(w http.ResponseWriter, r *http.Request, err error) {
	v := visitOf(r.Context())
	switch kind := fault.KindOf(err); {
	case r.Context().Err() != nil: // the client has gone
		w.WriteHeader(http.StatusBadGateway)
	case errors.Is(err, control.ErrNoListener) && v != nil:
		h.fail(w, r, http.StatusBadGateway, problem{
			fmt.Sprintf("Nothing listens on port %d", v.port.Number), "The sandbox runs, but no program in it accepts connections on this port.", h.otherPorts(r.Context(), v),
		})
	case kind == fault.NotFound:
		h.fail(w, r, http.StatusNotFound, problem{Title: "No such sandbox", Text: "It does not exist, or it was deleted."})
	case kind == fault.Permission:
		h.fail(w, r, http.StatusForbidden, problem{Title: "Not allowed", Text: sentence(err)})
	case kind == fault.Exhausted, kind == fault.Precondition:
		p := problem{Title: "The sandbox can't run now"}
		if v != nil && v.visitor.Team() {
			p.Text, p.Hint = sentence(err), fault.HintOf(err)
		}
		h.fail(w, r, http.StatusServiceUnavailable, p)
	default:
		h.Log.WarnContext(r.Context(), "a preview failed", "error", err)
		h.fail(w, r, http.StatusBadGateway, problem{Title: "No answer", Text: "The program in the sandbox closed the connection, or its answer is not HTTP."})
	}
}

func sentence(err error) string { return fault.Printable(err.Error()) + "." }

// otherPorts returns a hint that lists the ports with listening programs. It returns "" if the
// visitor is not in the team of the sandbox.
func (h *Handler) otherPorts(ctx context.Context, v *visit) string {
	const start = "Start a program that listens on this port, on 127.0.0.1 or on all addresses."
	if !v.visitor.Team() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, hintTime)
	defer cancel()
	ports, err := h.Control.ListeningPorts(ctx, v.visitor.Actor, v.port.ID)
	if err != nil || len(ports) == 0 {
		return start
	}
	var names []string
	for _, p := range ports[:min(len(ports), 20)] {
		names = append(names, strconv.Itoa(p))
	}
	return start + " Programs listen on: " + strings.Join(names, ", ") + "."
}
