package saved

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// MaxDevices is the maximum size of the state of QEMU's devices, in bytes. The usual size is some
// ten KiB.
const MaxDevices = 16 << 20

// Devices creates a migration stream from a head and the state of QEMU's devices. The state begins
// with a mark, which is left out because the head also contains it. The stream ends with an empty
// description of its format. QEMU itself does not read such a description.
func Devices(head Head, devices []byte) ([]byte, error) {
	mark := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, magic), version)
	rest, ok := bytes.CutPrefix(devices, mark)
	if !ok || len(devices) > MaxDevices || len(rest) < 2 || rest[0] != kindFull || rest[len(rest)-1] != kindEOF {
		return nil, malformed("%d bytes of its devices, which begin with %x", len(devices), devices[:min(len(devices), 9)])
	}
	return append(slices.Concat(head, rest), kindDescription, 0, 0, 0, 0), nil
}
