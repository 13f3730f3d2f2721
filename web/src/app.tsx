import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { ArrowLeft, Box, Compass, Gauge, KeyRound, Layers, LogOut, Menu as MenuIcon, Moon, ScrollText, Search, Server, Sun, SunMoon, Users, X } from "lucide-preact";
import { AccountMenu } from "./account";
import { api, textOf, type ApiError } from "./api";
import { endSession, loadMe, me, useSandboxes } from "./data";
import { anyDraft, dropDrafts } from "./drafts";
import { Create } from "./pages/create";
import { Login } from "./pages/login";
import { Sandboxes } from "./pages/sandboxes";
import { SandboxPage } from "./pages/sandbox";
import { capital } from "./format";
import { lazy } from "./lazy";
import { showError } from "./messages";
import { Key, openPalette, Palette, paletteKey, type Command } from "./palette";
import { go, part, path } from "./router";
import { Toasts } from "./toasts";
import { ask, Button, Empty, Modal, Questions } from "./ui";

const Keys = lazy(() => import("./pages/keys").then((m) => m.Keys));
const Templates = lazy(() => import("./pages/templates").then((m) => m.Templates));
const Members = lazy(() => import("./pages/team").then((m) => m.Members));
const Audit = lazy(() => import("./pages/audit").then((m) => m.Audit));
const Usage = lazy(() => import("./pages/team").then((m) => m.Usage));

interface Route {
	name: string;
	title: string;
	view: ComponentType;
}

function routeOf(): Route {
	switch (part(0)) {
		case "":
			return { name: "sandboxes", title: "Sandboxes", view: Sandboxes };
		case "sandboxes":
			return part(1) ? { name: "sandboxes", title: part(1), view: SandboxPage } : { name: "sandboxes", title: "Sandboxes", view: Sandboxes };
		case "templates":
			return { name: "templates", title: "Templates", view: Templates };
		case "keys":
			return { name: "keys", title: "API keys", view: Keys };
		case "members":
			return { name: "members", title: "Members", view: Members };
		case "audit":
			return { name: "audit", title: "Audit log", view: Audit };
		case "usage":
			return { name: "usage", title: "Usage and hosts", view: Usage };
	}
	return { name: "", title: "Not found", view: NotFound };
}

export function App() {
	const [failed, setFailed] = useState("");
	const link = part(0) === "login" && part(1);
	const load = () => {
		setFailed("");
		loadMe().catch((err) => setFailed(textOf(err)));
	};
	useEffect(() => {
		if (!link) load();
	}, []);
	if (link || me.value === null) return <Login token={link || ""} onDone={load} />;
	if (failed)
		return (
			<main class="login">
				<Empty icon={Server} title="pyro does not answer" actions={<Button onClick={load}>Try again</Button>}>
					{failed}
				</Empty>
			</main>
		);
	return (
		<>
			<Shell route={routeOf()} />
			<Commands />
			<Questions />
			<Toasts />
		</>
	);
}

export function Brand() {
	return (
		<a class="brand" href="/" aria-label="pyro, to all sandboxes">
			<Mark />
			pyro
		</a>
	);
}

export function Mark({ size = 22 }: { size?: number }) {
	return (
		<svg width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
			<path
				fill="currentColor"
				fill-rule="evenodd"
				d="M13 1.5c.6 4.6 7 7 7 13a8 8 0 0 1-16 0c0-3.2 1.5-5.3 3.2-7 .2 2.1.9 3.2 2 3.9.1-4 .9-7.4 3.8-9.9Zm-.7 11.3c-.9 2-3.6 2.9-3.6 5.2a3.3 3.3 0 0 0 6.6 0c0-2.5-2.4-3.4-3-5.2Z"
			/>
		</svg>
	);
}

function Shell({ route }: { route: Route }) {
	const [open, setOpen] = useState(false);
	const where = path.value;
	useEffect(() => setOpen(false), [where]);
	const page = `${route.name}/${part(1)}`;
	const [first, setFirst] = useState(page);
	// This runs before the browser shows the new page. Later, it could take the focus from an element
	// that the user has chosen.
	useLayoutEffect(() => {
		document.title = `${route.title} · pyro`;
		if (page === first) return;
		setFirst("");
		scrollTo(0, 0);
		document.querySelector<HTMLElement>("main h1")?.focus();
	}, [page]);
	const View = route.view;
	return (
		<div class="shell">
			<a class="button skip" href="#content">
				Skip to content
			</a>
			<header class="topbar">
				{route.name === "sandboxes" && !part(1) ? (
					<Brand />
				) : (
					<a class="back" href="/">
						<ArrowLeft size={18} aria-hidden />
						Sandboxes
					</a>
				)}
				<span class="grow" />
				<Button kind="quiet" icon={MenuIcon} label="Menu" aria-expanded={open} onClick={() => setOpen(true)} />
			</header>
			<aside class="side">
				<Brand />
				<Nav route={route} />
			</aside>
			{open && (
				<Modal title="Menu" class="drawer" bare onClose={() => setOpen(false)}>
					<div class="side">
						<div class="row">
							<span class="grow">
								<Brand />
							</span>
							<Button kind="quiet" icon={X} label="Close menu" onClick={() => setOpen(false)} />
						</div>
						<Nav
							route={route}
							onFind={() => {
								setOpen(false);
								openPalette();
							}}
						/>
					</div>
				</Modal>
			)}
			<div class="sheet">
				<main id="content" tabIndex={-1}>
					<View key={page} />
				</main>
			</div>
		</div>
	);
}

const pages = [
	{ name: "sandboxes", to: "/", text: "Sandboxes", icon: Box },
	{ name: "templates", to: "/templates", text: "Templates", icon: Layers },
	{ name: "keys", to: "/keys", text: "API keys", icon: KeyRound },
	{ name: "members", to: "/members", text: "Members", icon: Users },
	{ name: "usage", to: "/usage", text: "Usage and hosts", icon: Gauge },
	{ name: "audit", to: "/audit", text: "Audit log", icon: ScrollText },
];

/** Commands is the command palette, with the dialogs that its commands open. */
function Commands() {
	const [creating, setCreating] = useState(false);
	const commands: Command[] = [
		...pages.map(({ to, text, icon }) => ({ text, icon, run: () => go(to) })),
		...themes.map(({ value, text, icon }) => ({ text: `Theme: ${text}`, icon, run: () => setTheme(value) })),
		{ text: "Log out", icon: LogOut, run: logout },
	];
	return (
		<>
			<Palette pages={commands} create={() => setCreating(true)} />
			{creating && <Create onClose={() => setCreating(false)} />}
		</>
	);
}

function Nav({ route, onFind = openPalette }: { route: Route; onFind?: () => void }) {
	const boxes = useSandboxes();
	return (
		<>
			<button type="button" class="find" onClick={onFind} aria-keyshortcuts="Control+K Meta+K">
				<Search size={16} aria-hidden />
				<span class="grow">Find</span>
				<Key>{paletteKey}</Key>
			</button>
			<nav class="nav" aria-label="Pages">
				{pages.map(({ name, to, text, icon: Icon }) => (
					<a href={to} aria-current={route.name === name ? "page" : undefined}>
						<Icon size={16} aria-hidden />
						{text}
						{name === "sandboxes" && boxes.value && <span class="num">{boxes.value.length}</span>}
					</a>
				))}
			</nav>
			<div class="bottom">
				<Theme />
				<Who />
			</div>
		</>
	);
}

function Who() {
	const user = me.value;
	return (
		<div class="who">
			<div class="grow">
				<div class="row">
					<span class="cut" title={user?.name}>
						{user ? user.name || user.email : " "}
					</span>
					{user && <span class="tag">{capital(user.role)}</span>}
				</div>
				{user?.name && <div class="team">{user.email}</div>}
			</div>
			<AccountMenu />
			<Button
				kind="quiet"
				small
				icon={LogOut}
				label="Log out"
				onClick={logout}
			/>
		</div>
	);
}

async function logout() {
	if (anyDraft() && !(await ask({ title: "Discard the changes?", text: "The editor has changes that are not saved.", action: "Discard changes", run: async () => {} }))) return;
	try {
		await api.logout();
	} catch (err) {
		if ((err as ApiError).status !== 401) return showError(err); // the session goes on
	}
	dropDrafts();
	endSession();
	go("/", true);
}

const themes = [
	{ value: "", text: "System", icon: SunMoon },
	{ value: "light", text: "Light", icon: Sun },
	{ value: "dark", text: "Dark", icon: Moon },
];

const theme = signal(document.documentElement.dataset.theme ?? "");

function setTheme(value: string) {
	theme.value = value;
	if (value) document.documentElement.dataset.theme = value;
	else delete document.documentElement.dataset.theme;
	dispatchEvent(new Event("themechange"));
	try {
		localStorage.setItem("theme", value);
	} catch {} // the choice then lasts until the page is closed
}

function Theme() {
	return (
		<div class="segments themes" role="group" aria-label="Theme">
			{themes.map(({ value, text, icon: Icon }) => (
				<button type="button" aria-pressed={theme.value === value} aria-label={text} title={text} onClick={() => setTheme(value)}>
					<Icon size={15} aria-hidden />
				</button>
			))}
		</div>
	);
}

function NotFound() {
	return (
		<Empty
			icon={Compass}
			title="There is no such page"
			actions={
				<a class="button" href="/">
					Go to the sandboxes
				</a>
			}
		>
			The address may be mistyped, or the page has moved.
		</Empty>
	);
}
