package main

import (
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/mm"
)

// held are the tasks of a machine that goes on which do not run before its owner says so: all but the agent's. They are neither stopped nor traced as far as
// anything in the machine can tell, and a machine that is saved meanwhile is saved as if they ran: gVisor keeps no stops from outside.
type held struct{ tasks []*kernel.Task }

// hold holds the tasks of a kernel that does not run yet. What has the agent's memory is the agent, too: a child that is not another program yet, for which it waits.
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

// memoryOf gives a task's memory, which one that has ended has no more.
func memoryOf(t *kernel.Task) (m *mm.MemoryManager) {
	t.WithMuLocked(func(t *kernel.Task) { m = t.MemoryManager() })
	return m
}

// letGo has them run.
func (h *held) letGo() {
	for _, t := range h.tasks {
		t.EndExternalStop()
	}
	h.tasks = nil
}
