// Patches of git, as the API returns them.

/** FilePatch is the part of a patch that concerns one file. */
export interface FilePatch {
	path: string;
	/** lines are the hunks, and lines about a mode, a new name or binary content. */
	lines: string[];
}

/** filesOf splits the first lines of a patch by file. */
export function filesOf(patch: string, maxLines: number): FilePatch[] {
	const files: FilePatch[] = [];
	let file: FilePatch | undefined;
	let content = false; // after the header of a file
	for (const line of patch.split("\n", maxLines)) {
		if (line.startsWith("diff --git ")) {
			files.push((file = { path: /^a\/(.*) b\/\1$/.exec(line.slice(11))?.[1] ?? "", lines: [] }));
			content = false;
		} else if (file && !content && /^(\+\+\+ b\/|--- a\/|\+\+\+ "b\/|--- "a\/|rename to |copy to )/.test(line)) {
			file.path = unquote(line.replace(/^\S+ (to )?/, "").replace(/^("?)[ab]\//, "$1"));
		} else if (file && line) {
			content ||= line.startsWith("@@");
			if (content || !/^(index |--- |\+\+\+ |(new|deleted) file mode )/.test(line)) file.lines.push(line);
		}
	}
	return files;
}

const escapes: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** unquote returns the name that git wrote in quotes if it has special characters. */
function unquote(name: string): string {
	name = name.replace(/\t$/, ""); // git adds it after a name with spaces
	if (!/^".*"$/.test(name)) return name;
	const all: number[] = [];
	for (const [part, code, letter] of name.slice(1, -1).matchAll(/\\(?:([0-7]{3})|(.))|[^\\]+/g)) {
		if (code) all.push(parseInt(code, 8));
		else if (letter) all.push(escapes[letter] ?? letter.charCodeAt(0));
		else all.push(...new TextEncoder().encode(part));
	}
	return new TextDecoder().decode(new Uint8Array(all));
}
