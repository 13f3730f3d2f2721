#include "textflag.h"

// func clone3(args unsafe.Pointer, size uintptr) (pid, errno uintptr)
//
// The child shares the stack, and returns first: the return address is kept where it can't be overwritten.
TEXT ·clone3(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ  args+0(FP), DI
	MOVQ  size+8(FP), SI
	MOVQ  $435, AX
	POPQ  R12
	SYSCALL
	PUSHQ R12
	CMPQ  AX, $0xfffffffffffff001
	JLS   ok
	NEGQ  AX
	MOVQ  $0, pid+16(FP)
	MOVQ  AX, errno+24(FP)
	RET

ok:
	MOVQ AX, pid+16(FP)
	MOVQ $0, errno+24(FP)
	RET
