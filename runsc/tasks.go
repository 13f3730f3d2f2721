package main

import (
	"time"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// starts lists the system calls that make a task.
var starts = map[string]bool{"clone": true, "clone3": true, "fork": true, "vfork": true}

const (
	// startsAtOnce is the maximum number of concurrent forks in the sentry. A fork takes
	// milliseconds. With hundreds of concurrent forks, the agent's short system calls would wait
	// for all of them.
	startsAtOnce = 2
	// fullPause is the delay before a fork fails at the limit. Without it, programs that retry
	// immediately would block the sentry.
	fullPause = 100 * time.Millisecond
	// crowdMemory is the memory per task, in bytes, below which the tasks count as a crowd. Child
	// processes soon have their own copies of pages, and the machine ends if it is out of memory.
	// So a crowd can fork only while at least a quarter of the memory is free. If less than half is
	// free, each fork waits for crowdPause. The memory use then includes the copies of earlier
	// forks.
	crowdMemory = 16 << 20
	crowdPause  = 100 * time.Millisecond
	// taskMemory is an estimate of the host's memory for a process without its pages, in bytes.
	taskMemory = 384 << 10
)

// taskLimit limits the number of processes and threads in a machine.
type taskLimit struct {
	tasks  int
	memory uint64        // the machine's memory in bytes
	slots  chan struct{} // contains one value for each fork that can start now
}

// limitTasks makes fork and clone fail with EAGAIN if the machine has limit processes and threads,
// not counting the agent's. Call it before the machine is loaded.
//
// gVisor checks its own limit, pids.max, only at the end of a fork. By then it has copied the
// address space and made two processes on the host. A fork bomb at that limit would make thousands
// of processes. The agent is exempt from the limit, so it can always start a command.
func limitTasks(limit int, memory uint64) {
	l := &taskLimit{limit, memory, make(chan struct{}, startsAtOnce)}
	for range startsAtOnce {
		l.slots <- struct{}{}
	}
	wrapCalls(func(name string, fn kernel.SyscallFn) kernel.SyscallFn {
		if starts[name] {
			return l.limited(name, fn)
		}
		return fn
	})
}

// wrapCalls replaces each system call of the sentry by the result of wrap. Call it before the
// machine is loaded.
func wrapCalls(wrap func(name string, fn kernel.SyscallFn) kernel.SyscallFn) {
	for _, table := range kernel.SyscallTables() {
		for number, call := range table.Table {
			call.Fn = wrap(call.Name, call.Fn)
			table.Table[number] = call
		}
		table.Init()
	}
}

// limited wraps the system call fn. It waits for a start slot, then calls fn unless the machine is
// at its limit.
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
		defer func() { l.slots <- struct{}{} }()
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

// room reports whether another task can start: yes, after a pause, or not at all.
type room int

const (
	ample room = iota
	scarce
	none
)

// room reports whether another task can start. With copies, the task is a process that gets a copy
// of its parent's memory.
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

// begin waits for a start slot. If a signal interrupts the wait, the system call is restarted.
func (l *taskLimit) begin(t *kernel.Task) error {
	select {
	case <-l.slots:
		return nil
	default:
		return linuxerr.ConvertIntr(t.Block(l.slots), linuxerr.ERESTARTNOINTR)
	}
}
