import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/**
 * xterm.js makes style elements and style attributes, which the Content-Security-Policy of the
 * server blocks. This replaces them with src/styles.ts and the CSSOM. It fails the build if
 * xterm.js has changed.
 */
const xtermStyles: Plugin = {
	name: "xterm-styles",
	transform(code, id) {
		if (!id.includes("@xterm/xterm/lib/")) return;
		const replace = (count: number, from: RegExp, to: string) => {
			const found = code.match(from)?.length ?? 0;
			if (found !== count) this.error(`xterm.js has ${found} places like ${from}, want ${count}`);
			code = code.replace(from, to);
		};
		replace(3, /createElement\("style"\)/g, 'createElement("adopted-style")');
		replace(1, /(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/g, '$1.style.cssText+=$2+";"');
		return { code, map: null };
	},
};

// The output has no inline scripts, no inline styles and no data: URLs, which the
// Content-Security-Policy of the server would block.
/** icons loads only the icons that are used: the package has some thousand modules. */
const icons: Plugin = {
	name: "icons",
	enforce: "pre",
	transform(code, id) {
		if (!id.includes("/src/")) return;
		const folder = `${dirname(fileURLToPath(import.meta.url))}/node_modules/lucide-preact/dist/esm/icons`;
		return code.replace(/import \{([^}]*)\} from "lucide-preact";/, (_, names: string) =>
			names
				.split(",")
				.map((name) => name.trim())
				.filter((name) => name && !name.startsWith("type "))
				.map((name) => {
					const [from, to = from] = name.split(" as ");
					const file = from.replace(/(?!^)(?=[A-Z0-9])/g, "-").toLowerCase();
					return `import ${to} from "${folder}/${file}.mjs";`;
				})
				.join(""),
		);
	},
};

export default defineConfig({
	plugins: [icons, xtermStyles],
	esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
	build: {
		target: "es2022",
		assetsInlineLimit: 0,
		modulePreload: { polyfill: false },
		chunkSizeWarningLimit: 600,
		reportCompressedSize: false,
	},
});
