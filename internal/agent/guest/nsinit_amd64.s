#include "textflag.h"

// The whole program of pyro-init, see nsinit.go. It has no data segment and uses only its stack.
TEXT nsInit<>(SB), NOSPLIT|NOFRAME, $0
	SUBQ $64, SP
	MOVQ $0x636f7270, AX // "proc"
	MOVQ AX, 0(SP)
	MOVQ $0x636f72702f, AX // "/proc"
	MOVQ AX, 8(SP)

	// mount("proc", "/proc", "proc", MS_NOSUID|MS_NODEV|MS_NOEXEC, 0)
	LEAQ 0(SP), DI
	LEAQ 8(SP), SI
	LEAQ 0(SP), DX
	MOVQ $14, R10
	XORL R8, R8
	MOVQ $165, AX
	SYSCALL
	MOVQ AX, 16(SP)

	// rt_sigaction(SIGCHLD, {SIG_IGN}, 0, 8): the kernel reaps children
	MOVQ $1, 24(SP)
	MOVQ $0, 32(SP)
	MOVQ $0, 40(SP)
	MOVQ $0, 48(SP)
	MOVQ $17, DI
	LEAQ 24(SP), SI
	XORL DX, DX
	MOVQ $8, R10
	MOVQ $13, AX
	SYSCALL

	// rt_sigprocmask(SIG_BLOCK, all, 0, 8)
	MOVQ $-1, 56(SP)
	XORL DI, DI
	LEAQ 56(SP), SI
	XORL DX, DX
	MOVQ $8, R10
	MOVQ $14, AX
	SYSCALL

	// write(3, result of mount, 8)
	MOVQ $3, DI
	LEAQ 16(SP), SI
	MOVQ $8, DX
	MOVQ $1, AX
	SYSCALL

	// close(3)
	MOVQ $3, DI
	MOVQ $3, AX
	SYSCALL

forever: // pause()
	MOVQ $34, AX
	SYSCALL
	JMP  forever

DATA ·nsInitCode(SB)/8, $nsInit<>(SB)
GLOBL ·nsInitCode(SB), NOPTR|RODATA, $8
