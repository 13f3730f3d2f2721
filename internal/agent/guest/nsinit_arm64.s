#include "textflag.h"

// The whole program of pyro-init, see nsinit.go. It has no data segment and uses only its stack.
TEXT nsInit<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $64, RSP
	MOVD $0x636f7270, R9 // "proc"
	MOVD R9, 0(RSP)
	MOVD $0x636f72702f, R9 // "/proc"
	MOVD R9, 8(RSP)

	// mount("proc", "/proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, 0)
	ADD  $0, RSP, R0
	ADD  $8, RSP, R1
	ADD  $0, RSP, R2
	MOVD $14, R3
	MOVD $0, R4
	MOVD $40, R8
	SVC
	MOVD R0, 16(RSP)

	// rt_sigaction(SIGCHLD, {SIG_IGN}, 0, 8): the kernel reaps children
	MOVD $1, R9
	MOVD R9, 24(RSP)
	MOVD ZR, 32(RSP)
	MOVD ZR, 40(RSP)
	MOVD ZR, 48(RSP)
	MOVD $17, R0
	ADD  $24, RSP, R1
	MOVD $0, R2
	MOVD $8, R3
	MOVD $134, R8
	SVC

	// rt_sigprocmask(SIG_BLOCK, all, 0, 8)
	MOVD $-1, R9
	MOVD R9, 56(RSP)
	MOVD $0, R0
	ADD  $56, RSP, R1
	MOVD $0, R2
	MOVD $8, R3
	MOVD $135, R8
	SVC

	// write(3, result of mount, 8)
	MOVD $3, R0
	ADD  $16, RSP, R1
	MOVD $8, R2
	MOVD $64, R8
	SVC

	// close(3)
	MOVD $3, R0
	MOVD $57, R8
	SVC

forever: // ppoll(0, 0, 0, 0, 8)
	MOVD $0, R0
	MOVD $0, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $8, R4
	MOVD $73, R8
	SVC
	B    forever

DATA ·nsInitCode(SB)/8, $nsInit<>(SB)
GLOBL ·nsInitCode(SB), NOPTR|RODATA, $8
