package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pyro-mcp/pyro/internal/disk/view"
	"github.com/pyro-mcp/pyro/internal/environment"
)

// state contains the files and the configuration that the steps of a stage have produced so far.
type state struct {
	base   *environment.ImageRef
	layers []string // digests, lowest first
	below  int      // number of layers of the base
	config v1.Config
	hasCmd bool      // this stage has a CMD, which a later ENTRYPOINT keeps
	args   variables // the arguments of this stage
	key    string    // hash of everything on which the next step depends

	trees []*environment.Tree // trees[i] includes i layers; made on demand
}

// fork returns a state for a stage that begins with this one.
func (s *state) fork() *state {
	forked := *s
	forked.layers, forked.trees, forked.args, forked.hasCmd = slices.Clone(s.layers), nil, nil, false
	forked.config = *s.config.DeepCopy()
	return &forked
}

// close closes the trees.
func (s *state) close() {
	for _, t := range s.trees {
		t.Close()
	}
	s.trees = nil
}

// tree returns the files after the first n layers. The state closes it.
func (s *state) tree(ctx context.Context, layers *environment.Layers, n int) (view.Tree, error) {
	if len(s.trees) == 0 {
		base, err := environment.OpenTree(s.base)
		if err != nil {
			return nil, err
		}
		s.trees = []*environment.Tree{base}
	}
	for len(s.trees) <= n {
		next := &environment.Tree{Tree: s.trees[len(s.trees)-1].Tree}
		if err := layers.Apply(ctx, next, s.layers[len(s.trees)-1]); err != nil {
			next.Close()
			return nil, err
		}
		s.trees = append(s.trees, next)
	}
	return s.trees[n].Tree, nil
}

// top returns the files after all layers.
func (s *state) top(ctx context.Context, layers *environment.Layers) (view.Tree, error) {
	return s.tree(ctx, layers, len(s.layers))
}

// add adds the result of a step. The new key depends on the layer, because the same step can have
// different results in different builds.
func (s *state) add(key, layer string) {
	s.key = key
	s.key = s.after("layer", layer)
	if layer != "" {
		s.layers = append(s.layers, layer)
	}
}

// after returns the key of a step that follows this state. The parts are everything on which the
// step depends.
func (s *state) after(parts ...any) string {
	text, err := json.Marshal(append([]any{s.key}, parts...))
	if err != nil {
		panic(err) // parts are strings, numbers and lists
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// scope returns the variables that instructions can use. ENV has precedence over ARG.
func (s *state) scope() variables { return slices.Concat(s.args, variables(s.config.Env)) }
