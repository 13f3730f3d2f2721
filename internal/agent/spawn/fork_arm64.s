#include "textflag.h"

// func clone3(args unsafe.Pointer, size uintptr) (pid, errno uintptr)
//
// The return address is in the link register, which each has its own of.
TEXT ·clone3(SB), NOSPLIT, $0-32
	MOVD args+0(FP), R0
	MOVD size+8(FP), R1
	MOVD $435, R8
	SVC
	CMN  $4095, R0
	BCC  ok
	NEG  R0, R0
	MOVD ZR, pid+16(FP)
	MOVD R0, errno+24(FP)
	RET

ok:
	MOVD R0, pid+16(FP)
	MOVD ZR, errno+24(FP)
	RET
