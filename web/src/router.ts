import { signal } from "@preact/signals";

/** path is the path of the page, without the query. */
export const path = signal(location.pathname);

export function go(to: string, replace = false) {
	if (to === location.pathname + location.search) return;
	history[replace ? "replaceState" : "pushState"](null, "", to);
	path.value = location.pathname;
}

addEventListener("popstate", () => (path.value = location.pathname));

// Links of this page change it without loading it again.
addEventListener("click", (e) => {
	if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
	const a = (e.target as Element).closest?.("a");
	if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || a.hash) return;
	if (/^\/(v1|docs|openapi|health|metrics|mcp|preview)\b/.test(a.pathname)) return;
	e.preventDefault();
	go(a.pathname + a.search);
});

/** part returns the decoded part of the path with this number, or an empty string. */
export function part(n: number): string {
	try {
		return decodeURIComponent(path.value.split("/")[n + 1] ?? "");
	} catch {
		return "";
	}
}
