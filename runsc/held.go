package main

import (
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/mm"
)

// held contains the tasks of a resumed machine that must not run before Thaw. These are all tasks
// except the agent's. Nothing in the machine can see that they are held, because they are neither
// stopped nor traced. If the machine is saved again, gVisor saves them as running tasks, because it
// does not save external stops.
type held struct{ tasks []*kernel.Task }

// hold freezes the tasks of a kernel that does not run yet. A task that shares the agent's memory
// belongs to the agent. It is a child process before exec, and the agent waits for the exec.
func (h *held) hold(k *kernel.Kernel) {
	agent := k.GlobalInit()
	own := memoryOf(agent.Leader())
	for _, t := range k.RootPIDNamespace().Tasks() {
		if t.ThreadGroup() != agent && (own == nil || memoryOf(t) != own) {
			t.BeginExternalStop()
			h.tasks = append(h.tasks, t)
		}
	}
}

// memoryOf returns a task's memory, or nil if the task has ended.
func memoryOf(t *kernel.Task) (m *mm.MemoryManager) {
	t.WithMuLocked(func(t *kernel.Task) { m = t.MemoryManager() })
	return m
}

// letGo lets the frozen tasks run.
func (h *held) letGo() {
	for _, t := range h.tasks {
		t.EndExternalStop()
	}
	h.tasks = nil
}
