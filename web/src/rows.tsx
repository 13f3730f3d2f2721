import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** RowProps are the properties of the li element of a row. Its key must be the result of keyOf. */
export interface RowProps {
	"data-key": string;
	"aria-setsize": number;
	"aria-posinset": number;
	style: { top: string };
}

interface Props<T> {
	items: T[];
	keyOf: (item: T) => string;
	/** focus is the key of a row that gets the focus. Then onFocused is called, also if there is no such row. */
	focus?: string;
	onFocused?: () => void;
	children: (item: T, row: RowProps) => ComponentChildren;
}

/** spare is how many rows above and below the window are rendered too. */
const spare = 10;
const primary = "a, button:not(:disabled)";

/**
 * Rows shows a list of any length: only the rows in sight and the row with the focus are in the
 * document. Each row has the height of the CSS variable --row. The arrow keys, Page up, Page down,
 * Home and End move the focus between the rows.
 */
export function Rows<T>({ items, keyOf, focus, onFocused, children }: Props<T>) {
	const list = useRef<HTMLUListElement>(null);
	const [range, setRange] = useState({ first: 0, end: 3 * spare });
	const [focused, setFocused] = useState("");
	const [wanted, setWanted] = useState("");
	const target = focus || wanted;

	const measure = () => {
		const height = parseFloat(getComputedStyle(list.current!).getPropertyValue("--row"));
		const top = -list.current!.getBoundingClientRect().top;
		const first = Math.max(0, Math.floor(top / height) - spare);
		const end = Math.max(first, Math.ceil((top + innerHeight) / height) + spare);
		setRange((was) => (was.first === first && was.end === end ? was : { first, end }));
	};
	useLayoutEffect(measure, [items.length]);
	useLayoutEffect(() => {
		addEventListener("scroll", measure, { capture: true, passive: true }); // of any element around the list
		addEventListener("resize", measure);
		return () => {
			removeEventListener("scroll", measure, true);
			removeEventListener("resize", measure);
		};
	}, []);
	useLayoutEffect(() => {
		if (!target) return;
		rowOf(target)?.querySelector<HTMLElement>(primary)?.focus(); // the browser scrolls to it
		setWanted("");
		if (focus) onFocused?.();
	}, [target, items]);

	const rowOf = (key: string) => list.current!.querySelector<HTMLElement>(`:scope > [data-key="${CSS.escape(key)}"]`);
	const press = (e: KeyboardEvent) => {
		const row = (e.target as Element).closest<HTMLElement>("[data-key]");
		if (!row || e.target !== row.querySelector(primary)) return;
		const i = items.findIndex((item) => keyOf(item) === row.dataset.key);
		const to = { ArrowDown: i + 1, ArrowUp: i - 1, PageDown: i + spare, PageUp: i - spare, Home: 0, End: items.length - 1 }[e.key];
		if (to === undefined || i < 0) return;
		e.preventDefault();
		setWanted(keyOf(items[Math.min(items.length - 1, Math.max(0, to))]));
	};
	const visible: [T, number][] = items.slice(range.first, range.end).map((item, i) => [item, range.first + i]);
	for (const key of new Set([focused, target])) {
		const i = key ? items.findIndex((item) => keyOf(item) === key) : -1;
		if (i >= 0 && (i < range.first || i >= range.end)) visible.push([items[i], i]);
	}
	return (
		<ul
			class="rows"
			ref={list}
			style={{ height: `calc(var(--row) * ${items.length})` }}
			onKeyDown={press}
			onFocusIn={(e) => setFocused((e.target as Element).closest<HTMLElement>("[data-key]")?.dataset.key ?? "")}
			onFocusOut={() => setFocused("")}
		>
			{visible.map(([item, i]) => children(item, { "data-key": keyOf(item), "aria-setsize": items.length, "aria-posinset": i + 1, style: { top: `calc(var(--row) * ${i})` } }))}
		</ul>
	);
}
