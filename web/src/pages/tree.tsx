// The folders of a sandbox as a tree. A folder is loaded when it is opened.
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ChevronRight, Folder, FolderOpen } from "lucide-preact";
import { useData } from "../data";
import { hidden } from "../messages";
import { isFolder, keyOf, parent, sorted } from "../paths";

/** shown is how many folders of a folder are in the tree. The list beside it has all of them. */
const shown = 500;

/** above returns the folders above a folder. */
const above = (dir: string): string[] => (dir === "/" ? [] : [...above(parent(dir)), parent(dir)]);

/** Shared contains the data that all folders of a tree use. */
interface Shared {
	id: string; // of the sandbox
	dir: string; // the folder that the list beside the tree shows
	open: Set<string>;
	active: string; // the folder that has the focus, or gets it from the Tab key
	expand: (path: string, is: boolean) => void;
	enter: (path: string) => void;
}

/** Tree shows the folders of a sandbox. onEnter is called with the folder that the user chooses. */
export function Tree({ id, dir, onEnter }: { id: string; dir: string; onEnter: (dir: string) => void }) {
	const [open, setOpen] = useState(() => new Set(["/", ...above(dir)]));
	const [active, setActive] = useState(dir);
	const root = useRef<HTMLUListElement>(null);
	const items = () => [...root.current!.querySelectorAll<HTMLElement>("[role=treeitem]")];
	const expand = (path: string, is: boolean) => {
		setActive(path);
		setOpen((was) => (is ? new Set([...was, path]) : new Set([...was].filter((p) => p !== path))));
	};
	const enter = (path: string) => {
		expand(path, path !== dir || !open.has(path));
		onEnter(path);
	};
	useEffect(() => {
		setActive(dir);
		setOpen((was) => new Set([...was, ...above(dir)]));
	}, [dir]);
	useLayoutEffect(() => {
		// The active folder may be gone, or its parent is closed.
		const all = items();
		if (!all.some((e) => e.dataset.path === active)) all[0].tabIndex = 0;
	});

	const press = (e: KeyboardEvent) => {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		const at = e.target as HTMLElement;
		const path = at.dataset.path!;
		const all = items();
		const i = all.indexOf(at);
		const isOpen = open.has(path);
		const focus = (to: HTMLElement | null | undefined) => {
			if (!to) return;
			setActive(to.dataset.path!);
			to.focus();
		};
		if (e.key === "ArrowDown") focus(all[i + 1]);
		else if (e.key === "ArrowUp") focus(all[i - 1]);
		else if (e.key === "Home") focus(all[0]);
		else if (e.key === "End") focus(all.at(-1));
		else if (e.key === "ArrowRight" && isOpen) focus(at.nextElementSibling!.querySelector<HTMLElement>("[role=treeitem]"));
		else if (e.key === "ArrowRight") expand(path, true);
		else if (e.key === "ArrowLeft" && isOpen) expand(path, false);
		else if (e.key === "ArrowLeft") focus(at.closest("[role=group]")?.previousElementSibling as HTMLElement);
		else if (e.key === "Enter" || e.key === " ") enter(path);
		else if (e.key.length === 1) focus([...all.slice(i + 1), ...all.slice(0, i)].find((a) => a.textContent.toLowerCase().startsWith(e.key.toLowerCase())));
		else return;
		e.preventDefault();
	};
	return (
		<ul class="tree" role="tree" aria-label="Folders" ref={root} onKeyDown={press}>
			<Node path="/" name="/" level={1} tree={{ id, dir, open, active, expand, enter }} />
		</ul>
	);
}

function Node({ path, name, level, tree }: { path: string; name: string; level: number; tree: Shared }) {
	const isOpen = tree.open.has(path);
	const selected = path === tree.dir;
	const row = useRef<HTMLDivElement>(null);
	const inner = useId();
	useEffect(() => {
		if (selected) row.current!.scrollIntoView({ block: "nearest" });
	}, [selected]);
	const Icon = isOpen ? FolderOpen : Folder;
	return (
		<li role="none">
			<div
				ref={row}
				class="tree-row"
				role="treeitem"
				aria-level={level}
				aria-expanded={isOpen}
				aria-selected={selected}
				aria-owns={isOpen ? inner : undefined}
				data-path={path}
				tabIndex={path === tree.active ? 0 : -1}
				style={{ "--level": level - 1 }}
				title={name}
				onClick={() => tree.enter(path)}
			>
				<span
					class="tree-arrow"
					onClick={(e) => {
						e.stopPropagation();
						tree.expand(path, !isOpen);
					}}
				>
					<ChevronRight size={14} aria-hidden />
				</span>
				<Icon size={16} aria-hidden />
				<span class="cut">{name}</span>
			</div>
			{isOpen && <Inner id={inner} path={path} level={level + 1} tree={tree} />}
		</li>
	);
}

/** Inner shows the folders of an open folder. */
function Inner({ id, path, level, tree }: { id: string; path: string; level: number; tree: Shared }) {
	const { value, error } = useData(keyOf(tree.id, path), (api) => api.list(tree.id, path));
	const all = useMemo(() => value && sorted(value.filter(isFolder)), [value]);
	const folders = all?.filter((e) => !hidden(keyOf(tree.id, e.path)));
	const note = error ? "It can't be listed" : !folders ? "Loading…" : folders.length > shown ? `${folders.length - shown} more in the list` : folders.length ? "" : "No folders";
	return (
		<ul role="group" id={id}>
			{folders?.slice(0, shown).map((e) => <Node key={e.path} path={e.path} name={e.name} level={level} tree={tree} />)}
			{note && (
				<li role="none" class="tree-note" style={{ "--level": level - 1 }}>
					{note}
				</li>
			)}
		</ul>
	);
}
