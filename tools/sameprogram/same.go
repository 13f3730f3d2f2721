package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// same reports whether two versions of a Go file are the same program. It compares tokens, because
// equal tokens have equal syntax trees. It fails if a version is not valid Go.
func same(name string, a, b []byte) (bool, error) {
	before, err := program(name, a)
	if err != nil {
		return false, err
	}
	after, err := program(name, b)
	if err != nil {
		return false, err
	}
	return slices.Equal(before, after), nil
}

// element is a token, or a comment that is part of the program.
type element struct {
	token token.Token
	text  string
}

// program returns the tokens of a file, without the comments that have no effect.
func program(name string, source []byte) ([]element, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	effective := effectiveComments(file, strings.HasSuffix(name, "_test.go"))
	tokens := set.AddFile(name, -1, len(source))
	var s scanner.Scanner
	s.Init(tokens, source, nil, scanner.ScanComments)
	var elements []element
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return elements, nil
		case tok == token.SEMICOLON:
			text = ";" // a newline means the same
		case tok == token.COMMENT && !effective[tokens.Offset(pos)]:
			continue
		}
		elements = append(elements, element{tok, text})
	}
}

// directive matches comments for the compiler and other tools: build constraints, "//go:" and other
// directives, "//export", and the mark of generated files.
var directive = regexp.MustCompile(
	`^//(line |extern |export |[a-z0-9]+:[a-z0-9]| *\+build |nolint)|^/\*line |^// Code generated .* DO NOT EDIT\.$`)

// output matches the comment with the expected output of an example.
var output = regexp.MustCompile(`(?i)^[[:space:]]*(unordered )?output:`)

// effectiveComments returns the offsets of the comments that are part of the program.
func effectiveComments(file *ast.File, test bool) map[int]bool {
	found := map[int]bool{}
	add := func(comment *ast.Comment) { found[int(comment.Pos()-file.FileStart)] = true }
	for _, group := range file.Comments {
		expected := test && output.MatchString(group.Text())
		for _, comment := range group.List {
			if expected || directive.MatchString(comment.Text) {
				add(comment)
			}
		}
	}
	for _, declaration := range file.Decls {
		imports, ok := declaration.(*ast.GenDecl)
		if !ok || imports.Tok != token.IMPORT {
			continue
		}
		for _, spec := range imports.Specs {
			spec := spec.(*ast.ImportSpec)
			if spec.Path.Value != `"C"` {
				continue
			}
			// The comment before import "C" is C code.
			for _, group := range []*ast.CommentGroup{imports.Doc, spec.Doc} {
				if group != nil {
					for _, comment := range group.List {
						add(comment)
					}
				}
			}
		}
	}
	return found
}
