// The texts of files that somebody has changed in the editor, and not saved. They stay while the page
// shows something else, such as that the sandbox is paused.
import type { Text } from "@codemirror/state";
import { me } from "./data";

export interface Draft {
	user: string | undefined;
	sandbox: string;
	path: string;
	text: Text;
	/** saved is the text of the file that the user has changed. */
	saved: string;
}

/** maxDrafts is the number of drafts that the page keeps. A further one replaces the oldest. */
const maxDrafts = 20;

let drafts: Draft[] = []; // the oldest first

/** draftOf returns the draft of a file, or without a path the latest draft of a sandbox. */
export const draftOf = (sandbox: string, path?: string) =>
	drafts.findLast((d) => d.user === me.value?.user_id && d.sandbox === sandbox && (path === undefined || d.path === path));

export function dropDraft(sandbox: string, path: string) {
	const d = draftOf(sandbox, path);
	drafts = drafts.filter((other) => other !== d);
}

export function keepDraft(d: Omit<Draft, "user">) {
	dropDraft(d.sandbox, d.path);
	drafts = [...drafts, { ...d, user: me.value?.user_id }].slice(-maxDrafts);
}

/** anyDraft reports whether the page would lose a draft if it ended now. */
export const anyDraft = () => drafts.length > 0;
export const dropDrafts = () => void (drafts = []);

addEventListener("beforeunload", (e) => anyDraft() && e.preventDefault());
