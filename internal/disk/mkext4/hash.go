package mkext4

import (
	"encoding/binary"
	"math/bits"
)

const (
	hashVersion = 1 // half MD4
	// The hash treats the bytes of a name as unsigned on every host.
	hashUnsigned = 2
)

// hashSeed is the seed for directory hashes. A secret seed would only protect against hostile
// names. This protection is not necessary, because the names come from the machine's own user.
var hashSeed = [16]byte([]byte("pyro\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x01"))

// hash returns the major and minor hash of a name. The results are the same as in fs/ext4/hash.c of
// Linux.
func hash(name string) (major, minor uint32) {
	var state [4]uint32
	for i := range state {
		state[i] = binary.LittleEndian.Uint32(hashSeed[4*i:])
	}
	for len(name) > 0 {
		halfMD4(&state, packed(name))
		name = name[min(len(name), 32):]
	}
	major = state[1] &^ 1
	if major == 1<<32-2 { // reserved for the end of a directory
		major = 1<<32 - 4
	}
	return major, state[2]
}

// packed returns the first 32 bytes of a name as numbers. It fills unused bytes with len(name).
func packed(name string) (in [8]uint32) {
	fill := uint32(len(name)) | uint32(len(name))<<8
	fill |= fill << 16
	for i := range in {
		in[i] = fill
		for j := 4 * i; j < min(len(name), 4*i+4); j++ {
			in[i] = in[i]<<8 + uint32(name[j])
		}
	}
	return in
}

// halfMD4 runs three rounds of MD4 on half of an MD4 block.
func halfMD4(state *[4]uint32, in [8]uint32) {
	a, b, c, d := state[0], state[1], state[2], state[3]
	for _, round := range []struct {
		mix    func(x, y, z uint32) uint32
		add    uint32
		order  [8]int
		rotate [4]int
	}{
		{func(x, y, z uint32) uint32 { return z ^ x&(y^z) }, 0, [8]int{0, 1, 2, 3, 4, 5, 6, 7}, [4]int{3, 7, 11, 19}},
		{func(x, y, z uint32) uint32 { return x&y + (x^y)&z }, 0x5a827999, [8]int{1, 3, 5, 7, 0, 2, 4, 6}, [4]int{3, 5, 9, 13}},
		{func(x, y, z uint32) uint32 { return x ^ y ^ z }, 0x6ed9eba1, [8]int{3, 7, 2, 6, 1, 5, 0, 4}, [4]int{3, 9, 11, 15}},
	} {
		for i, which := range round.order {
			a = bits.RotateLeft32(a+round.mix(b, c, d)+in[which]+round.add, round.rotate[i%4])
			a, b, c, d = d, a, b, c
		}
	}
	state[0], state[1], state[2], state[3] = state[0]+a, state[1]+b, state[2]+c, state[3]+d
}
