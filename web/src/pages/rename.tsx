import { useEffect, useRef } from "preact/hooks";
import { type File as Entry } from "../api";
import { Field, FormModal } from "../ui";

/**
 * Rename is a dialog for another name of an entry in its folder. The function rename gives the
 * entry this name and returns its path. The dialog shows its error, or closes with the path.
 */
export function Rename({ entry: e, rename, onClose }: { entry: Entry; rename: (name: string) => Promise<string>; onClose: (path: string) => void }) {
	const input = useRef<HTMLInputElement>(null);
	useEffect(() => {
		// Most people change the name and keep the extension.
		const dot = e.type === "directory" ? 0 : e.name.lastIndexOf(".");
		input.current!.focus();
		input.current!.setSelectionRange(0, dot > 0 ? dot : e.name.length);
	}, []);
	const submit = async (form: FormData) => {
		const name = String(form.get("name"));
		try {
			if (name.includes("/") || name === "." || name === "..") throw new Error(`${name} can't be a name: a name has no /, and is not . or ..`);
			onClose(name === e.name ? e.path : await rename(name));
		} catch (err) {
			input.current?.focus();
			throw err;
		}
	};
	return (
		<FormModal title={`Rename ${e.name}`} action="Rename" submit={submit} onClose={() => onClose(e.path)}>
			<Field label="New name">{(i) => <input id={i} ref={input} class="input" name="name" defaultValue={e.name} required maxLength={255} autocomplete="off" autocapitalize="off" spellcheck={false} />}</Field>
		</FormModal>
	);
}
