// Uploads of files to folders of sandboxes. They continue while the user looks at other parts of
// the page.
import { signal } from "@preact/signals";
import { api, type ApiError, textOf } from "./api";
import { bytes, plural } from "./format";
import { toast } from "./messages";
import { join } from "./paths";

const maxSize = 100 << 20; // maximum size of a file, in bytes
const atOnce = 3; // browsers permit only six connections to a server
const maxFiles = 10_000; // maximum number of files in a dropped folder

/** Item is a file to upload. path is its path below the folder. */
export interface Item {
	path: string;
	file: File;
}

export interface Upload {
	sandbox: string;
	/** text names the file or the files. */
	text: string;
	/** part is the part that was sent, from 0 to 1. */
	part: number;
	cancel: () => void;
}
export const uploads = signal<Upload[]>([]);

addEventListener("beforeunload", (e) => uploads.value.length && e.preventDefault());

/**
 * upload writes files to a folder of a sandbox. It returns when each of them is written, has failed
 * or was cancelled.
 */
export async function upload(sandbox: string, dir: string, items: Item[]) {
	const stop = new AbortController();
	const sent = new Map<Item, number>();
	const size = items.reduce((n, i) => n + i.file.size, 0);
	const failures: unknown[] = [];
	let next = 0;
	let done = 0;
	let shown: Upload | undefined;
	const show = () => {
		const part = size ? Math.min(1, [...sent.values()].reduce((a, b) => a + b, 0) / size) : done / items.length;
		const text = items.length === 1 ? items[0].path : `${done} of ${plural(items.length, "file")}`;
		const now = { sandbox, text, part, cancel: () => stop.abort() };
		uploads.value = shown ? uploads.value.map((u) => (u === shown ? now : u)) : [...uploads.value, now];
		shown = now;
	};
	const work = async () => {
		while (next < items.length && !stop.signal.aborted) {
			const item = items[next++];
			try {
				if (item.file.size > maxSize) throw new Error(`${item.path} is larger than ${bytes(maxSize)}. Copy it with pyro workspace cp`);
				await api.write(sandbox, join(dir, item.path), item.file, {
					signal: stop.signal,
					sent: (n) => {
						sent.set(item, Math.min(n, item.file.size));
						show();
					},
				});
				done++;
			} catch (err) {
				if (stop.signal.aborted) return;
				failures.push(err);
				const { status } = err as ApiError;
				if (status === 0 || status === 401) stop.abort(); // the others would fail too
			}
			sent.set(item, item.file.size);
			show();
		}
	};
	show();
	await Promise.all(Array.from({ length: atOnce }, work));
	uploads.value = uploads.value.filter((u) => u !== shown);
	const of = `${done} of ${plural(items.length, "file")}`;
	if (failures.length) toast(items.length === 1 ? textOf(failures[0]) : `${of} uploaded to ${dir}. ${textOf(failures[0])}`, true);
	else if (done < items.length) toast(done ? `Upload cancelled after ${of}` : "Upload cancelled");
	else toast(`${plural(done, "file")} uploaded to ${dir}`);
}

/** itemsOf returns the files of a drop, including those in dropped folders. */
export async function itemsOf(drop: DataTransfer): Promise<Item[]> {
	const found: Item[] = [];
	// The browser forgets the drop after the first wait.
	const dropped = [...drop.items].filter((i) => i.kind === "file").map((i) => ({ entry: i.webkitGetAsEntry(), file: i.getAsFile() }));
	const add = (path: string, file: File) => {
		if (found.length === maxFiles) throw new Error(`There are more than ${maxFiles} files. Pack them into an archive, and upload that`);
		found.push({ path, file });
	};
	const walk = async (e: FileSystemEntry, path: string) => {
		if (e.isFile) return add(path, await new Promise<File>((done, fail) => (e as FileSystemFileEntry).file(done, fail)));
		const reader = (e as FileSystemDirectoryEntry).createReader();
		for (;;) {
			const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
			if (!some.length) return;
			for (const inner of some) await walk(inner, `${path}/${inner.name}`);
		}
	};
	for (const { entry, file } of dropped) {
		if (entry?.isDirectory) await walk(entry, entry.name);
		else if (file) add(file.name, file);
	}
	return found;
}
