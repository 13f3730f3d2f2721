package main

import (
	"time"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// starts are the names of the system calls that make a task.
var starts = map[string]bool{"clone": true, "clone3": true, "fork": true, "vfork": true}

const (
	// startsAtOnce bounds the forks that the sentry works on at the same time. A fork takes
	// milliseconds: with hundreds at once, the agent's short system calls would wait for all of them.
	startsAtOnce = 2
	// fullPause is how long a fork takes that fails at the limit. Programs that try again at once
	// would otherwise keep the sentry from all other work.
	fullPause = 100 * time.Millisecond
	// crowdMemory is the memory for each task that makes them a crowd when there is less. Children
	// soon have copies of pages of their own, and the machine ends when it is out of memory. So a
	// crowd may fork only while a quarter of the memory is free. From half of it on each fork waits
	// for crowdPause, in which the copies of those before it show.
	crowdMemory = 16 << 20
	crowdPause  = 100 * time.Millisecond
	// taskMemory is about what a process takes on the host beside its pages.
	taskMemory = 384 << 10
)

// taskLimit bounds the processes and threads of a machine.
type taskLimit struct {
	tasks  int
	memory uint64        // the machine's, in bytes
	turns  chan struct{} // holds a value for each fork that may begin now
}

// limitTasks makes fork and clone fail with EAGAIN while the machine has limit processes and threads
// beside those of its agent. It must be called before the machine is loaded.
//
// gVisor checks its own limit, pids.max, last: by then a fork has copied the address space, for which
// two processes on the host exist. A fork bomb at that limit would make thousands of them. The agent
// is exempt, so that it can always start a command.
func limitTasks(limit int, memory uint64) {
	l := &taskLimit{limit, memory, make(chan struct{}, startsAtOnce)}
	for range startsAtOnce {
		l.turns <- struct{}{}
	}
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			if starts[call.Name] {
				call.Fn = l.limited(call.Name, call.Fn)
				table.Table[number] = call
			}
		}
		table.Init()
	}
}

// limited waits for a turn, and calls fn unless the machine has all tasks that it may have.
func (l *taskLimit) limited(name string, fn kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		agent := t.Kernel().GlobalInit()
		if t.ThreadGroup() == agent {
			return fn(t, number, args)
		}
		copies := name == "fork" || name == "clone" && args[0].Uint64()&linux.CLONE_VM == 0
		if l.room(t, agent, copies) == none {
			t.BlockWithTimeout(nil, true, fullPause)
			return 0, nil, linuxerr.EAGAIN
		}
		if err := l.begin(t); err != nil {
			return 0, nil, err
		}
		defer func() { l.turns <- struct{}{} }()
		room := l.room(t, agent, copies)
		if room == scarce {
			t.BlockWithTimeout(nil, true, crowdPause)
			room = l.room(t, agent, copies)
		}
		if room == none {
			return 0, nil, linuxerr.EAGAIN
		}
		return fn(t, number, args)
	}
}

// room is how much room there is for one task more.
type room int

const (
	ample room = iota
	scarce
	none
)

// room returns the room for one task more. If copies is true, it is a process with a copy of its
// parent's memory.
func (l *taskLimit) room(t *kernel.Task, agent *kernel.ThreadGroup, copies bool) room {
	tasks := t.Kernel().RootPIDNamespace().NumTasks() - agent.Count()
	if tasks >= l.tasks {
		return none
	}
	if !copies || uint64(tasks) < l.memory/crowdMemory {
		return ample
	}
	used, err := t.Kernel().MemoryFile().TotalUsage()
	if err != nil {
		return ample
	}
	switch used += uint64(tasks) * taskMemory; {
	case used > l.memory/4*3:
		return none
	case used > l.memory/2:
		return scarce
	}
	return ample
}

// begin waits for a turn. A signal interrupts that: the system call is made again after it.
func (l *taskLimit) begin(t *kernel.Task) error {
	select {
	case <-l.turns:
		return nil
	default:
		return linuxerr.ConvertIntr(t.Block(l.turns), linuxerr.ERESTARTNOINTR)
	}
}
