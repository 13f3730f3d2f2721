package saved

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// MaxDevices is how much QEMU may say of its devices, which takes some ten KiB.
const MaxDevices = 16 << 20

// Devices makes a stream that a QEMU reads, of a head and what QEMU said of its devices alone. That begins with a mark, which the head has already. The stream ends with a
// description of its own form, which is left empty: nobody but people would read it.
func Devices(head Head, devices []byte) ([]byte, error) {
	mark := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, magic), version)
	rest, ok := bytes.CutPrefix(devices, mark)
	if !ok || len(devices) > MaxDevices || len(rest) < 2 || rest[0] != kindFull || rest[len(rest)-1] != kindEOF {
		return nil, malformed("%d bytes of its devices, which begin with %x", len(devices), devices[:min(len(devices), 9)])
	}
	return append(slices.Concat(head, rest), kindDescription, 0, 0, 0, 0), nil
}
