import { useEffect, useRef } from "preact/hooks";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, defaultHighlightStyle, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, Text, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags as t } from "@lezer/highlight";

/** languages load the syntax of a file by the end of its name. */
const languages: [RegExp, () => Promise<Extension>][] = [
	[/\.(m?js|cjs|jsx|tsx?|mts)$/, () => import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: true, typescript: true }))],
	[/\.pyi?$/, () => import("@codemirror/lang-python").then((m) => m.python())],
	[/\.json$/, () => import("@codemirror/lang-json").then((m) => m.json())],
	[/\.(md|markdown)$/, () => import("@codemirror/lang-markdown").then((m) => m.markdown())],
	[/\.(html?|svg|xml)$/, () => import("@codemirror/lang-html").then((m) => m.html())],
	[/\.css$/, () => import("@codemirror/lang-css").then((m) => m.css())],
	[/(\.(ba|z)?sh|^\.?(bash|profile|zsh)\w*)$/, () => import("@codemirror/legacy-modes/mode/shell").then((m) => StreamLanguage.define(m.shell))],
	[/\.go$/, () => import("@codemirror/legacy-modes/mode/go").then((m) => StreamLanguage.define(m.go))],
	[/\.rs$/, () => import("@codemirror/legacy-modes/mode/rust").then((m) => StreamLanguage.define(m.rust))],
	[/\.(c|h)$/, () => import("@codemirror/legacy-modes/mode/clike").then((m) => StreamLanguage.define(m.c))],
	[/\.(cc|cpp|hpp)$/, () => import("@codemirror/legacy-modes/mode/clike").then((m) => StreamLanguage.define(m.cpp))],
	[/\.ya?ml$/, () => import("@codemirror/legacy-modes/mode/yaml").then((m) => StreamLanguage.define(m.yaml))],
	[/\.toml$/, () => import("@codemirror/legacy-modes/mode/toml").then((m) => StreamLanguage.define(m.toml))],
	[/^Dockerfile/, () => import("@codemirror/legacy-modes/mode/dockerfile").then((m) => StreamLanguage.define(m.dockerFile))],
	[/\.(ini|conf|cfg|properties)$/, () => import("@codemirror/legacy-modes/mode/properties").then((m) => StreamLanguage.define(m.properties))],
];

const colors = HighlightStyle.define([
	{ tag: [t.keyword, t.modifier, t.operatorKeyword, t.controlKeyword], color: "light-dark(#a33b0b, #f0925f)" },
	{ tag: [t.string, t.special(t.string), t.regexp], color: "light-dark(#1b6e3c, #7cc795)" },
	{ tag: [t.number, t.bool, t.null, t.atom], color: "light-dark(#2459a0, #86b6f5)" },
	{ tag: [t.comment, t.meta], color: "light-dark(#6a625c, #978f87)", fontStyle: "italic" },
	{ tag: [t.function(t.variableName), t.function(t.propertyName), t.heading], color: "light-dark(#1c1815, #f7e6c4)", fontWeight: "600" },
	{ tag: [t.typeName, t.className, t.tagName, t.namespace], color: "light-dark(#75489a, #cda6ec)" },
	{ tag: [t.propertyName, t.attributeName], color: "light-dark(#2b5f75, #8cc4dc)" },
	{ tag: t.link, textDecoration: "underline" },
	{ tag: t.invalid, color: "light-dark(#bf2230, #f77a80)" },
]);

const look = EditorView.theme({
	"&": { height: "100%", fontSize: "13px", backgroundColor: "transparent", color: "var(--text)" },
	"&.cm-focused": { outline: "none" },
	".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", scrollbarWidth: "thin" },
	".cm-content": { padding: "8px 0", caretColor: "var(--accent)" },
	".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "none", paddingLeft: "8px" },
	".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
	".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
	"&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "light-dark(#f8ddd0, #47301f)" },
	".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)", borderColor: "var(--line)" },
	".cm-panels input, .cm-panels button": { fontFamily: "var(--sans)" },
	".cm-textfield": { backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)", borderRadius: "4px" },
	".cm-button": { backgroundImage: "none", backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)", borderRadius: "4px" },
	".cm-searchMatch": { backgroundColor: "var(--amber-soft)", outline: "1px solid var(--amber)" },
});

interface Props {
	name: string;
	/** text is the text of the file. */
	text: string;
	/** draft is the text of the editor at the start, if it is another one. */
	draft?: Text;
	readOnly: boolean;
	/** takesFocus: the editor gets the focus when it appears. */
	takesFocus: boolean;
	/** onChange is called after each change. dirty: the text differs from the text that was saved last. */
	onChange: (text: Text, dirty: boolean) => void;
	onSave: () => void;
	/** onReady gets a function that returns the text, and a function to call when it is saved. */
	onReady: (take: () => Taken) => void;
}

export interface Taken {
	text: string;
	saved: () => void;
}

/**
 * Editor edits a text. It is in a shadow root, because CodeMirror then uses adopted style sheets,
 * which the Content-Security-Policy permits.
 */
export function Editor({ name, text, draft, readOnly, takesFocus, onChange, onSave, onReady }: Props) {
	const host = useRef<HTMLDivElement>(null);
	const calls = useRef({ onChange, onSave });
	calls.current = { onChange, onSave };
	useEffect(() => {
		let gone = false;
		let view: EditorView | undefined;
		const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
		const start = (language: Extension) => {
			if (gone) return;
			const separator = text.includes("\r\n") ? "\r\n" : "\n";
			let original = Text.of(text.split(separator));
			const state = EditorState.create({
				doc: draft ?? original,
				extensions: [
					lineNumbers(),
					foldGutter(),
					highlightActiveLine(),
					highlightActiveLineGutter(),
					highlightSpecialChars(),
					highlightSelectionMatches(),
					drawSelection(),
					history(),
					indentOnInput(),
					bracketMatching(),
					indentUnit.of(/^\t/m.test(text) || name.endsWith(".go") ? "\t" : "    "),
					syntaxHighlighting(colors),
					syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
					EditorState.readOnly.of(readOnly),
					EditorState.lineSeparator.of(separator),
					EditorView.clipboardInputFilter.of((pasted) => pasted.replace(/\r\n?|\n/g, separator)), // of dropped text too
					EditorView.contentAttributes.of({ "aria-label": `Text of ${name}`, tabindex: "0" }),
					EditorView.updateListener.of((u) => u.docChanged && report()),
					keymap.of([{ key: "Mod-s", run: () => (calls.current.onSave(), true), preventDefault: true }, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, indentWithTab]),
					look,
					language,
				],
			});
			view = new EditorView({ state, parent: root, root });
			const v = view;
			const report = () => calls.current.onChange(v.state.doc, !v.state.doc.eq(original));
			if (draft) report();
			onReady(() => {
				const { doc } = v.state;
				return {
					text: v.state.sliceDoc(),
					saved: () => {
						original = doc;
						report();
					},
				};
			});
			if (takesFocus) v.focus();
		};
		const found = languages.find(([pattern]) => pattern.test(name));
		(found ? found[1]() : Promise.resolve([])).then(start, () => start([]));
		return () => {
			gone = true;
			view?.destroy();
		};
	}, []);
	return <div class="editor-host" ref={host} />;
}
