package layer

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

// sampleFile is an archive that tests in internal/disk/view read.
const sampleFile = "../../internal/disk/view/testdata/layer.tar"

var update = flag.Bool("update", false, "write "+sampleFile)

// list is an access control list. The owner has all rights, and user 1234 and the group can read.
var list = base64.RawStdEncoding.EncodeToString([]byte("\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x04\x00\xd2\x04\x00\x00" +
	"\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x04\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff"))

var sample = []entry{
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o750, Uid: 9}},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./etc/", Mode: 0o1775, Uid: 1 << 31, Gid: 5}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/conf", Mode: 0o4755}, size: page + 10, segments: []segment{{0, page, 2 * page}, {page, 2 * page, 0}}},
	{header: tar.Header{Typeflag: tar.TypeChar, Name: "./etc/gone"}},
	{header: tar.Header{Typeflag: tar.TypeLink, Name: "./out", Linkname: "./etc/gone"}},
	{header: tar.Header{Typeflag: tar.TypeLink, Name: "./etc/linked", Linkname: "./etc/conf"}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./etc/empty", Mode: 0o600}},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./bin/", Mode: 0o770, PAXRecords: map[string]string{opaqueRecord: "y", accessRecord: list, defaultRecord: list}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./bin/tool", Mode: 0o740, PAXRecords: map[string]string{accessRecord: list}}, size: 1, segments: []segment{{0, page, 3 * page}}},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./holes/", Mode: 0o755}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./holes/end", Mode: 0o600}, size: 1 << 30, segments: []segment{{1<<30 - page, 1 << 30, 25 * page}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./holes/start", Mode: 0o600}, size: 1<<40 + 7, segments: []segment{{0, page, 4 * page}}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./holes/side by side", Mode: 0o600}, size: 6*page + 100, segments: []segment{
		{page, 2 * page, 9 * page}, {2 * page, 4 * page, 5 * page}, {6 * page, 7 * page, 0},
	}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./holes/all", Mode: 0o600}, size: 3 << 20},
	{header: tar.Header{Typeflag: tar.TypeDir, Name: "./dev/", Mode: 0o755}},
	{header: tar.Header{Typeflag: tar.TypeFifo, Name: "./dev/fifo", Mode: 0o622}},
	{header: tar.Header{Typeflag: tar.TypeChar, Name: "./dev/null", Mode: 0o606, Devmajor: 1, Devminor: 3}},
	{header: tar.Header{Typeflag: tar.TypeBlock, Name: "./dev/none", Mode: 0o660}},
	{header: tar.Header{Typeflag: tar.TypeSymlink, Name: "./dev/sda", Linkname: "../../" + strings.Repeat("up", 1000)}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./n\xfc\nm", Mode: 0o600}},
	{header: tar.Header{Typeflag: tar.TypeReg, Name: "./" + strings.Repeat("n", 255), Mode: 0o600}},
}

// TestSample checks that Write still writes the sample that other tests use. The flag -update
// writes a new sample.
func TestSample(t *testing.T) {
	var pages []byte
	for c := byte('a'); c <= 'z'; c++ {
		pages = append(pages, bytes.Repeat([]byte{c}, page)...)
	}
	details := map[string]map[string]string{
		"etc/conf": {"user.bytes": "\x00\xff\n=", "user.empty": "", "trusted.note": "trusted", "user.=": "left out"},
		"holes":    {"user.folder": "folder"},
		"dev/sda":  {"trusted.link": "link"},
	}
	var b bytes.Buffer
	err := Write(&b, Source{bytes.NewReader(describe(t, sample)), bytes.NewReader(pages), func(name string) (time.Time, map[string]string, error) {
		return changed.Add(time.Duration(len(name))), details[name], nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(sampleFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(sampleFile); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s differs from the written stream; -update rewrites it: %v", sampleFile, err)
	}
}
