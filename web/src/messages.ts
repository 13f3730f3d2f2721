// Short messages at the bottom of the page, and deletions that the user can still undo.
import { signal } from "@preact/signals";
import { beforeChanges, textOf } from "./api";

export interface Message {
	id: number;
	text: string;
	bad?: boolean;
	/** undo: the message has a button for it, and disappears when it is too late to undo. */
	undo?: () => void;
}
export const messages = signal<Message[]>([]);
let last = 0;

const add = (m: Omit<Message, "id">) => {
	messages.value = [...messages.value.slice(-3), { id: ++last, ...m }];
	return last;
};

export function toast(text: string, bad = false) {
	const id = add({ text, bad });
	setTimeout(() => dismiss(id), bad ? 10000 : 4000);
}
export const showError = (err: unknown) => toast(textOf(err), true);
export const dismiss = (id: number) => (messages.value = messages.value.filter((m) => m.id !== id));

interface Deletion {
	key: string;
	finish: () => Promise<void>;
	hold: (held: boolean) => void;
}
const deletions = signal<Deletion[]>([]);
const undoTime = 8000;

/**
 * deleteLater hides something, and deletes it some seconds later unless the user undoes it. hidden
 * reports the key until then. When the user leaves the page, it is deleted immediately.
 */
export function deleteLater(key: string, name: string, run: () => Promise<unknown>) {
	if (hidden(key)) return;
	const forget = () => {
		clearTimeout(timer);
		dismiss(message);
		deletions.value = deletions.value.filter((d) => d !== deletion);
	};
	let running: Promise<void> | undefined;
	const finish = () => {
		clearTimeout(timer);
		dismiss(message);
		// The entry stays hidden until the page knows that it is gone.
		running ??= run().catch(showError).then(forget);
		return running;
	};
	const hold = (held: boolean) => {
		clearTimeout(timer);
		if (!held && !running) timer = setTimeout(finish, undoTime);
	};
	const deletion = { key, finish, hold };
	const message = add({ text: `${name} will be deleted`, undo: forget });
	let timer = setTimeout(finish, undoTime);
	deletions.value = [...deletions.value, deletion];
}

/** hidden reports whether something with a key is being deleted. */
export const hidden = (key: string) => deletions.value.some((d) => d.key === key);

/** finishDeletions deletes everything that could still be undone. */
export const finishDeletions = () => Promise.all(deletions.value.map((d) => d.finish()));

/** holdDeletions stops or restarts the time limit for undoing a deletion. */
export const holdDeletions = (held: boolean) => deletions.value.forEach((d) => d.hold(held));

beforeChanges(finishDeletions);
addEventListener("pagehide", () => void finishDeletions());
