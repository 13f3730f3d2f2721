//go:build machine

package test

import (
	"testing"

	"github.com/pyro-mcp/pyro/client"
)

// TestServeFolders watches folders of a real machine while a program in the background changes
// them, also after a pause, and in a live fork.
func TestServeFolders(t *testing.T) {
	t.Parallel()
	a := serveAPI(t)
	_, one := a.create(client.NewSandbox{Template: new(environment)})
	script := "mkdir /srv/in /workspace/in; while mkdir /srv/in/$((i = i + 1)) /workspace/in/$i; do sleep 1; done"
	a.must(202, "POST", one+"/exec", map[string]any{"cmd": "sh", "args": []string{"-c", script}, "background": true}, nil)
	folders := map[string]any{"type": "folders", "paths": []string{"/srv/in", "/workspace/in"}}
	// The first frame of a folder says that the server watches it. Only the program causes others.
	changes := func(c *ws) {
		t.Helper()
		for seen := map[string]int{}; seen["/srv/in"] < 3 || seen["/workspace/in"] < 3; {
			switch f := c.frame(); f.Type {
			case "folder":
				seen[f.Path]++
			case "state":
			default:
				t.Fatalf("got %+v", f)
			}
		}
	}
	c := a.dial(one+"/watch", folders)
	changes(c)

	a.must(200, "POST", one+"/pause", nil, nil)
	for c.frame().Status != "paused" {
	}
	a.must(200, "POST", one+"/resume", nil, nil)
	changes(c)

	var fork client.Sandbox
	a.must(201, "POST", one+"/fork", map[string]any{"live": true}, &fork)
	changes(c)
	changes(a.dial("/v1/sandboxes/"+fork.Id+"/watch", folders))
}
