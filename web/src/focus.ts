// If the element with the focus is removed, a keyboard would start at the top of the page again.
// So a nearby element gets the focus. It is the first of these that exists: the element itself, or
// the last button of the same row, the next row or the previous row. Otherwise it is a button above
// the list, or the heading of the page.

let last: Element | undefined; // the latest element that got the focus
let nearby: (() => HTMLElement | null | undefined)[] = [];

const visible = (e: HTMLElement) => e.checkVisibility();
const lastOf = (row: Element | null | undefined) => [...(row?.querySelectorAll<HTMLElement>("a, button:not(:disabled)") ?? [])].filter(visible).at(-1);

addEventListener("focusin", (e) => {
	const at = (last = e.target as HTMLElement);
	if (at.closest("dialog, .toasts")) return; // a dialog and a message give the focus back themselves
	const row = at.closest("tr, li");
	const rows = [row, row?.nextElementSibling, row?.previousElementSibling];
	const section = at.closest("section");
	const main = at.closest("main");
	nearby = [
		() => at,
		...rows.map((r) => () => r?.isConnected ? lastOf(r) : null),
		() => section?.querySelector<HTMLElement>("header button, .empty .actions > *"),
		() => main?.querySelector<HTMLElement>(".page-head button, h1[tabindex]"),
	];
});

new MutationObserver(() => {
	if (!last || last.isConnected || document.activeElement !== document.body) return;
	last = undefined;
	for (const find of nearby) {
		const e = find();
		if (!e?.isConnected) continue;
		e.focus();
		if (document.activeElement === e) return;
	}
}).observe(document.documentElement, { childList: true, subtree: true });
