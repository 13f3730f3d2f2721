package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolbox is the tools of a server, and the workspaces that were made with them.
type toolbox struct {
	session    *mcp.ClientSession
	workspaces map[string]bool
}

// function is a tool, as the Responses API describes one.
type function struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  any    `json:"parameters"`
	Strict      bool   `json:"strict"` // not: most arguments may be left out
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

// call calls a tool, and gives what the model is to know of the outcome. What the model did wrong is for it to mend, and no error.
func (t toolbox) call(ctx context.Context, name, arguments string) (string, error) {
	fmt.Fprintf(os.Stderr, "%s %.200q\n", name, arguments)
	var asked map[string]any
	if err := json.Unmarshal([]byte(arguments), &asked); err != nil {
		return `{"error": "the arguments are no JSON object"}`, nil
	}
	delete(asked, "allow_host_compat") // nobody is asked before a call: nothing runs on the host
	result, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: asked})
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) {
			return "", err
		}
		text, err := json.Marshal(map[string]string{"error": err.Error()})
		return string(text), err
	}
	outcome, err := json.Marshal(result.StructuredContent) // which of an error has the kind and a hint too
	if err == nil {
		t.note(name, outcome, result.IsError)
	}
	return string(outcome), err
}

// note keeps in mind what workspaces there are.
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

// tidy deletes the workspaces that the model has left.
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
