import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Check, CircleAlert, Copy, LoaderCircle, Search, X, type LucideIcon } from "lucide-preact";
import { textOf, type Sandbox } from "./api";
import { capital } from "./format";
import { showError } from "./messages";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "icon"> & {
	kind?: "primary" | "danger" | "quiet";
	small?: boolean;
	icon?: LucideIcon;
	busy?: boolean;
	/** label names a button that shows only its icon, or a part of its label. */
	label?: string;
};

export function Button({ kind, small, icon: Icon, busy, label, children, class: more, ...rest }: ButtonProps) {
	const only = children === undefined;
	return (
		<button
			type="button"
			aria-label={label}
			title={only ? label : undefined}
			{...rest}
			disabled={busy || rest.disabled}
			class={["button", kind, small && "small", only && "square", more].filter(Boolean).join(" ")}
		>
			{busy ? <LoaderCircle size={16} class="spin" aria-hidden /> : Icon && <Icon size={16} aria-hidden />}
			{children}
		</button>
	);
}

/** pending is the value of a team that is not known yet. */
export const pending = new Promise<never>(() => {});

/** useAttempt returns attempt, which runs a function. busy: it still runs. error: why it failed. */
export function useAttempt(): { busy: boolean; error: string; attempt: (f: () => Promise<unknown>) => Promise<void> } {
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState("");
	const attempt = async (f: () => Promise<unknown>) => {
		setBusy(true);
		setError("");
		try {
			await f();
		} catch (err) {
			setError(textOf(err));
		} finally {
			setBusy(false);
		}
	};
	return { busy, error, attempt };
}

/**
 * useAction returns whether the action f runs now, and a function that runs it, for a button. If f
 * fails, a toast shows the error.
 */
export function useAction(f: () => Promise<unknown>): [boolean, () => Promise<void>] {
	const [busy, setBusy] = useState(false);
	const run = async () => {
		setBusy(true);
		await f().catch((err) => err.status !== 401 && showError(err));
		setBusy(false);
	};
	return [busy, run];
}

/** Status shows a word with the colour of a status. */
export function Status({ of, text = of, pill }: { of: Sandbox["status"]; text?: string; pill?: boolean }) {
	return (
		<span class={`status ${of} ${pill ? "pill" : ""}`}>
			<span class="word">{capital(text)}</span>
		</span>
	);
}

export function SearchField(props: JSX.IntrinsicElements["input"] & { label: string }) {
	const { label, ...rest } = props;
	return (
		<label class="search grow">
			<Search size={16} aria-hidden />
			<span class="sr">{label}</span>
			<input class="input" type="search" autocomplete="off" spellcheck={false} placeholder={label} {...rest} />
		</label>
	);
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string, hint?: string) => ComponentChildren }) {
	const id = useId();
	return (
		<div class="field">
			<label for={id}>{label}</label>
			{children(id, hint ? `${id}-hint` : undefined)}
			{hint && (
				<span class="hint" id={`${id}-hint`}>
					{hint}
				</span>
			)}
		</div>
	);
}

export function Segments<T extends string>(props: { label: string; value: T; options: { value: T; text: string; count?: number }[]; onChange: (v: T) => void }) {
	return (
		<div class="segments" role="group" aria-label={props.label}>
			{props.options.map((o) => (
				<button type="button" aria-pressed={o.value === props.value} onClick={() => props.onChange(o.value)}>
					{o.text}
					{o.count !== undefined && <span class="count num">{o.count}</span>}
				</button>
			))}
		</div>
	);
}

export function Empty({ icon: Icon, title, children, actions }: { icon: LucideIcon; title: string; children?: ComponentChildren; actions?: ComponentChildren }) {
	return (
		<div class="empty">
			<Icon size={28} strokeWidth={1.5} aria-hidden />
			<h2>{title}</h2>
			{children && <p>{children}</p>}
			{actions && <div class="actions">{actions}</div>}
		</div>
	);
}

export function Notice({ children }: { children: ComponentChildren }) {
	return (
		<div class="notice" role="alert">
			<CircleAlert size={16} aria-hidden />
			<div class="grow">{children}</div>
		</div>
	);
}

export function Bone({ w, h = 12 }: { w: number | string; h?: number }) {
	return <span class="bone" style={{ width: w, height: h, maxWidth: "100%" }} />;
}

/** Panel is a part of a page with a heading. It shows an error, and a placeholder while loading. */
export function Panel(props: { title: string; actions?: ComponentChildren; loading?: boolean; error?: unknown; children: ComponentChildren }) {
	const id = useId();
	return (
		<section class="panel" aria-labelledby={id} aria-busy={props.loading}>
			<header>
				<h2 id={id} class="grow">
					{props.title}
				</h2>
				{props.actions}
			</header>
			{!!props.error && (
				<div class="inner">
					<Notice>{textOf(props.error)}</Notice>
				</div>
			)}
			{props.loading && !props.error && (
				<div class="inner">
					<Bone w={220} />
				</div>
			)}
			{props.children}
		</section>
	);
}

export function PageHead({ title, sub, children }: { title: string; sub: string; children?: ComponentChildren }) {
	return (
		<header class="page-head">
			<h1 tabIndex={-1}>{title}</h1>
			{children}
			<p class="sub">{sub}</p>
		</header>
	);
}

/**
 * Table shows rows. With loading it shows placeholders. With actions it has one more column, for
 * buttons. On a phone the columns are below each other, and each cell has the name of its column.
 */
export function Table({ columns, actions, loading, children }: { columns: string[]; actions?: boolean; loading?: boolean; children: ComponentChildren }) {
	const ref = useRef<HTMLTableElement>(null);
	useLayoutEffect(() => {
		for (const row of ref.current!.tBodies[0].rows) columns.forEach((c, i) => row.cells[i] && (row.cells[i].dataset.column = c));
	});
	return (
		<table class="grid-table stacked" ref={ref}>
			<thead>
				<tr>
					{columns.map((c) => (
						<th>{c}</th>
					))}
					{actions && (
						<th>
							<span class="sr">Actions</span>
						</th>
					)}
				</tr>
			</thead>
			<tbody>
				{loading &&
					[0, 1, 2].map(() => (
						<tr>
							{columns.map((_, i) => (
								<td>
									<Bone w={i === 0 ? 140 : 80} />
								</td>
							))}
							{actions && <td />}
						</tr>
					))}
				{children}
			</tbody>
		</table>
	);
}

/** Fact is an entry of a list of facts. While the value is not known, it shows a placeholder. */
export function Fact({ name, known, wide, children }: { name: string; known: boolean; wide?: boolean; children: ComponentChildren }) {
	return (
		<div class={wide ? "wide" : ""}>
			<dt>{name}</dt>
			<dd>{known ? children : <Bone w={110} h={14} />}</dd>
		</div>
	);
}

/** copy copies a text, and returns whether it succeeds. If not, copy shows the text. */
export async function copy(text: string): Promise<boolean> {
	try {
		await navigator.clipboard.writeText(text); // without TLS, the browser has no clipboard
		return true;
	} catch {
		await ask({
			title: "Copy this text",
			text: (
				<Field label="The browser does not allow this page to copy. Select the text and copy it.">
					{(id) => <textarea id={id} class="input mono" rows={5} readOnly autoFocus value={text} onFocus={(e) => e.currentTarget.select()} />}
				</Field>
			),
			action: "Done",
			danger: false,
			run: async () => {},
		});
		return false;
	}
}

export function Copied({ text, label = "Copy" }: { text: string; label?: string }) {
	const [done, setDone] = useState(false);
	return (
		<Button
			kind="quiet"
			small
			label={done ? "Copied" : label}
			icon={done ? Check : Copy}
			onClick={async () => {
				if (!(await copy(text))) return;
				setDone(true);
				setTimeout(() => setDone(false), 1500);
			}}
		/>
	);
}

export function Snippet({ text, label }: { text: string; label: string }) {
	return (
		<div class="snippet">
			<pre role="group" tabIndex={0} aria-label={label}>
				{text}
			</pre>
			<Copied text={text} />
		</div>
	);
}

/** Modal is a dialog that is open as long as it is rendered. */
export function Modal(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string; bare?: boolean }) {
	const ref = useRef<HTMLDialogElement>(null);
	const id = useId();
	useEffect(() => {
		const d = ref.current!;
		if (!d.open) d.showModal();
	}, []);
	return (
		<dialog
			ref={ref}
			class={props.class}
			aria-labelledby={id}
			onClose={props.onClose}
			onCancel={(e) => {
				e.preventDefault();
				props.onClose();
			}}
			onPointerDown={(e) => e.target === ref.current && props.onClose()}
		>
			{props.bare ? (
				<>
					<h2 class="sr" id={id}>
						{props.title}
					</h2>
					{props.children}
				</>
			) : (
				<div class="content">
					<div class="row">
						<h2 class="grow" id={id}>
							{props.title}
						</h2>
						<Button kind="quiet" small icon={X} label="Close" onClick={props.onClose} />
					</div>
					{props.children}
				</div>
			)}
		</dialog>
	);
}

/** FormModal is a dialog that calls submit with the values of its fields, and shows its error. */
export function FormModal(props: {
	title: string;
	action: string;
	/** waiting replaces the text of the action while submit runs. */
	waiting?: string;
	icon?: LucideIcon;
	danger?: boolean;
	/** locked: the dialog can't be closed while submit runs. */
	locked?: boolean;
	class?: string;
	submit: (form: FormData) => Promise<unknown>;
	onClose: () => void;
	children: ComponentChildren;
}) {
	const { busy, error, attempt } = useAttempt();
	const locked = busy && props.locked;
	return (
		<Modal title={props.title} class={props.class} onClose={() => !locked && props.onClose()}>
			<form
				class="stack"
				onSubmit={(e) => {
					e.preventDefault();
					const form = new FormData(e.currentTarget);
					void attempt(() => props.submit(form));
				}}
			>
				{props.children}
				{error && <Notice>{error}</Notice>}
				<footer>
					<Button onClick={props.onClose} disabled={locked}>
						Cancel
					</Button>
					<Button kind={props.danger ? "danger" : "primary"} type="submit" icon={props.icon} busy={busy}>
						{(busy && props.waiting) || props.action}
					</Button>
				</footer>
			</form>
		</Modal>
	);
}

interface Question {
	title: string;
	text: ComponentChildren;
	action: string;
	danger?: boolean;
	run: () => Promise<unknown>;
	answer: (yes: boolean) => void;
}
const question = signal<Question | null>(null);

/**
 * ask shows a question with a button for an action. When the question is closed, ask returns
 * whether the action succeeded.
 */
export function ask(q: Omit<Question, "answer">): Promise<boolean> {
	return new Promise((answer) => (question.value = { ...q, answer }));
}

export function Questions() {
	// After a login, no question of the previous user may remain.
	useEffect(() => () => void (question.value = null), []);
	const q = question.value;
	return q && <Asked key={q.title} q={q} />;
}

function Asked({ q }: { q: Question }) {
	const done = useRef(false);
	useEffect(() => () => q.answer(done.current), []);
	const close = (yes: boolean) => {
		done.current = yes;
		question.value = null;
	};
	const submit = async () => {
		await q.run();
		close(true);
	};
	return (
		<FormModal title={q.title} action={q.action} danger={q.danger !== false} locked submit={submit} onClose={() => close(false)}>
			<div class="lead">{q.text}</div>
		</FormModal>
	);
}

/** Menu is a button that opens a list of actions. worded: the button shows its label too. */
export function Menu({ label, icon, worded, children, small }: { label: string; icon: LucideIcon; worded?: boolean; children: ComponentChildren; small?: boolean }) {
	const id = useId().replace(/[^a-z0-9]/gi, "");
	const ref = useRef<HTMLDivElement>(null);
	const place = (e: { currentTarget: EventTarget | null; newState: string }) => {
		if (e.newState !== "open") return;
		const menu = ref.current!;
		const at = document.getElementById(`b${id}`)!.getBoundingClientRect();
		const width = Math.max(180, menu.offsetWidth);
		const below = at.bottom + 4 + menu.offsetHeight < innerHeight;
		menu.style.top = `${scrollY + (below ? at.bottom + 4 : Math.max(8, at.top - 4 - menu.offsetHeight))}px`;
		menu.style.left = `${Math.max(8, at.right - width)}px`;
		menu.querySelector<HTMLElement>("button:not(:disabled), a")?.focus();
	};
	const move = (e: KeyboardEvent) => {
		if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
		e.preventDefault();
		const all = [...ref.current!.querySelectorAll<HTMLElement>("button:not(:disabled), a")];
		const at = all.indexOf(document.activeElement as HTMLElement);
		all[(at + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
	};
	return (
		<>
			<Button id={`b${id}`} kind="quiet" small={small} icon={icon} label={label} popovertarget={id}>
				{worded ? label : undefined}
			</Button>
			<div id={id} ref={ref} class="menu" popover="auto" onToggle={place} onKeyDown={move} onClick={() => ref.current?.hidePopover()}>
				{children}
			</div>
		</>
	);
}
