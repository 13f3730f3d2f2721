// Paths and entries of folders in sandboxes.
import { type File as Entry } from "./api";

export const join = (dir: string, name: string) => (dir === "/" ? `/${name}` : `${dir}/${name}`);
export const parent = (path: string) => path.replace(/\/[^/]*$/, "") || "/";
/** inside reports whether a path is dir or a path in it. */
export const inside = (dir: string, path: string) => path === dir || path.startsWith(dir === "/" ? "/" : `${dir}/`);

export const isFolder = (e: Entry) => e.type === "directory";
const byName = new Intl.Collator(undefined, { numeric: true }).compare;
/** sorted returns entries in the order of the page: folders first. */
export const sorted = (all: Entry[]) => [...all].sort((x, y) => Number(isFolder(y)) - Number(isFolder(x)) || byName(x.name, y.name));

/** keyOf is the key of a path among the values of the page. */
export const keyOf = (sandbox: string, path: string) => `sandbox/${sandbox}/files${path}`;
