package oci

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pyro-mcp/pyro/internal/fault"
)

// TestBlobsOfLayouts grows each manifest, index and configuration of a layout. Spaces do not change
// the meaning of these files, so only their size and digest are wrong.
func TestBlobsOfLayouts(t *testing.T) {
	image, err := Compose(t.Context(), v1.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	config, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := inner.Digest()
	if err != nil {
		t.Fatal(err)
	}
	load := func(harm v1.Hash, spaces int) error {
		folder := t.TempDir()
		if _, err := layout.Write(folder, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})); err != nil {
			t.Fatal(err)
		}
		if spaces > 0 {
			file, err := os.OpenFile(filepath.Join(folder, "blobs", "sha256", harm.Hex), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.Write(bytes.Repeat([]byte(" "), spaces)); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := Load(t.Context(), folder, t.TempDir(), func(int64) error { return nil }, nil)
		return err
	}
	if err := load(v1.Hash{}, 0); err != nil {
		t.Fatal(err)
	}
	for name, blob := range map[string]v1.Hash{"the index": index, "the manifest": manifest, "the configuration": config} {
		for _, spaces := range []int{1, maxConfig} {
			if err := load(blob, spaces); fault.KindOf(err) != fault.Corrupt && fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s has %d more bytes: %v", name, spaces, err)
			}
		}
	}
}
