package machine

import "context"

// Pauser is a running machine that can be paused and resumed. Both methods are idempotent. While a
// machine is paused, its agent does not answer.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Saver is a running machine whose state can be written to a folder. New machines resume from that
// folder, see Spec.Saved.
type Saver interface {
	Pauser

	// Save writes the machine's memory and the state of its devices to dir, an empty folder.
	//
	// If Save returns nil, the folder is complete and flushed, and the machine is paused. The disks
	// contain everything that the machine wrote, and are flushed too. The owner then closes or
	// resumes the machine. Before that, the owner can add layers to disks that outlive the machine
	// (Layerer). If Save fails, the machine continues to run, and the content of dir is useless.
	//
	// If the machine has no Storage, Save also saves the changes to its root.
	Save(ctx context.Context, dir string) error
}

// Thawer is a machine whose driver freezes the machine's processes after a start from Spec.Saved.
// Only the agent runs until the owner calls Thaw. Until then no other process runs or changes a
// file. The agent answers requests, but requests that start processes might block.
//
// If a Saver is no Thawer, the agent freezes the processes before the machine is saved (Hold,
// Identity.Held and Thaw in internal/agent/client). In both cases the owner can save a machine
// before thawing it. A machine that resumes from that save is frozen too.
type Thawer interface {
	// Thaw lets the processes run. It does nothing if the machine booted. Idempotent.
	Thaw(ctx context.Context) error
}

// Layerer is a running machine whose disk images can get new layers ([Features].BlockDisks).
type Layerer interface {
	// AddLayers adds the empty layers in the files root and volume. From then on the machine writes
	// to these layers, and the layers below never change again. If a path is empty, that disk does
	// not change. AddLayers changes both disks or, if there is an error, neither. The layers below
	// are consistent if the file systems were frozen during the call.
	AddLayers(ctx context.Context, root, volume string) error
}

// Merger is a running machine that can merge layers of its disk images ([Features].BlockDisks).
type Merger interface {
	// Merge copies the content of lower layers into the top layer while the machine runs. It skips
	// the lowest layers, and the parameter keep is their number. After that the machine no longer
	// needs the copied layers. If ctx is cancelled, the machine still needs all layers.
	Merge(ctx context.Context, disk Disk, keep int) error
}

// RootSaver is a running machine that can write the changes to its root to a file. A later machine
// gets that file as TreeStorage.Root.
type RootSaver interface {
	// SaveRoot replaces the file at path atomically. Nothing should run in the machine during the
	// call.
	SaveRoot(ctx context.Context, path string) error
}

// Processes is a running machine that consists of several processes on the host.
type Processes interface {
	// PIDs are the processes that the driver started, including Machine.PID. These processes and
	// their descendants write to the machine's storage and use its processor time.
	PIDs() []int
}
