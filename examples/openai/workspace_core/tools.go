package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolbox contains the connection to the server, and the IDs of the workspaces that the model has
// created.
type toolbox struct {
	session    *mcp.ClientSession
	workspaces map[string]bool
}

// function describes a tool to the Responses API.
type function struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  any    `json:"parameters"`
	Strict      bool   `json:"strict"` // false, because most arguments are optional
}

func (t toolbox) functions(ctx context.Context) ([]function, error) {
	var all []function
	for tool, err := range t.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, function{"function", tool.Name, tool.Description, tool.InputSchema, false})
	}
	return all, nil
}

// call calls a tool and returns the result for the model. If the model made a mistake, the result
// describes it, so that the model can correct the call.
func (t toolbox) call(ctx context.Context, name, arguments string) (string, error) {
	fmt.Fprintf(os.Stderr, "%s %.200q\n", name, arguments)
	var asked map[string]any
	if err := json.Unmarshal([]byte(arguments), &asked); err != nil {
		return `{"error": "the arguments are not a JSON object"}`, nil
	}
	delete(asked, "allow_host_compat") // no user confirms calls, so commands must not run on the host
	result, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: asked})
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) {
			return "", err
		}
		text, err := json.Marshal(map[string]string{"error": err.Error()})
		return string(text), err
	}
	outcome, err := json.Marshal(result.StructuredContent) // for an error it includes the kind and the hint
	if err == nil {
		t.note(name, outcome, result.IsError)
	}
	return string(outcome), err
}

// note records which workspaces the model creates and deletes.
func (t toolbox) note(tool string, outcome []byte, failed bool) {
	var workspace struct {
		ID string `json:"workspace_id"`
	}
	if failed || json.Unmarshal(outcome, &workspace) != nil {
		return
	}
	switch tool {
	case "workspace_create":
		t.workspaces[workspace.ID] = true
	case "workspace_delete":
		delete(t.workspaces, workspace.ID)
	}
}

// tidy deletes the workspaces that the model has not deleted.
func (t toolbox) tidy(ctx context.Context) error {
	var errs []error
	for id := range t.workspaces {
		result, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: "workspace_delete", Arguments: map[string]string{"workspace_id": id}})
		if err == nil {
			err = result.GetError()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
