const units = ["B", "KB", "MB", "GB", "TB"];

export function bytes(n: number): string {
	let i = 0;
	while (n >= 1024 && i < units.length - 1) {
		n /= 1024;
		i++;
	}
	return `${i === 0 || n >= 100 ? Math.round(n) : n >= 10 ? n.toFixed(1).replace(/\.0$/, "") : n.toFixed(2).replace(/\.?0+$/, "")} ${units[i]}`;
}

/** commandOf returns the text of a command. If a shell runs a script, it is the script. */
export function commandOf(argv: string[]): string {
	const runs = argv.length === 3 && /^(\/(usr\/)?bin\/)?(ba)?sh$/.test(argv[0]) && /^-l?c$/.test(argv[1]);
	return runs ? argv[2] : argv.join(" ");
}

export const megabytes = (n: number) => bytes(n * 1048576);

export function ago(time: string | number | undefined): string {
	if (!time) return "Never";
	const s = Math.max(0, (Date.now() - +new Date(time)) / 1000);
	if (s < 45) return "Just now";
	if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min ago`;
	if (s < 86400) return `${Math.round(s / 3600)} h ago`;
	if (s < 86400 * 30) return `${Math.round(s / 86400)} d ago`;
	return new Date(time).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** took returns a time that something took. */
export function took(ms: number): string {
	if (ms < 1000) return `${Math.round(ms)} ms`;
	const s = ms / 1000;
	return s < 60 ? `${s.toFixed(1)} s` : `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
}

export function duration(s: number): string {
	if (!s) return "Never";
	if (s % 86400 === 0) return `${s / 86400} d`;
	if (s % 3600 === 0) return `${s / 3600} h`;
	if (s % 60 === 0) return `${s / 60} min`;
	return `${s} s`;
}

export const exact = (time: string | number | undefined) => (time ? new Date(time).toLocaleString() : "");
export const cores = (n: number) => `${n} vCPU`;
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
export const plural = (n: number, one: string, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;

/** decode returns the bytes of a text in base64. */
export const decode = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
