import { useEffect, useRef } from "preact/hooks";
import { api } from "../api";
import { Mark } from "../app";
import { go, part } from "../router";
import { Button, Field, Notice, useAttempt } from "../ui";

/** Login asks for a password, or uses a login link. */
export function Login({ token, onDone }: { token: string; onDone: () => void }) {
	const { busy, error, attempt } = useAttempt();
	const email = useRef<HTMLInputElement>(null);
	useEffect(() => {
		document.title = "Log in · pyro";
		email.current?.focus();
	}, [token]);
	const login = (how: () => Promise<unknown>) =>
		attempt(async () => {
			await how();
			if (part(0) === "login") go("/", true);
			onDone();
		});
	return (
		<main class="login">
			<div>
				<div class="brand">
					<Mark size={28} />
					pyro
				</div>
				<h1>Log in</h1>
				{error && <Notice>{error}</Notice>}
				{token ? (
					<>
						<p class="dim">This link logs you in once, in this browser.</p>
						<Button kind="primary" class="wide" busy={busy} onClick={() => login(() => api.loginByLink(token))}>
							Log in with this link
						</Button>
						<p class="foot">
							You can also <a class="link" href="/">use your password</a>.
						</p>
					</>
				) : (
					<>
						<form
							onSubmit={(e) => {
								e.preventDefault();
								const form = new FormData(e.currentTarget);
								void login(() => api.login(String(form.get("email")), String(form.get("password"))));
							}}
						>
							<Field label="Email">{(id) => <input ref={email} id={id} class="input tall" name="email" type="email" autocomplete="username" required maxLength={320} />}</Field>
							<Field label="Password">
								{(id) => <input id={id} class="input tall" name="password" type="password" autocomplete="current-password" required maxLength={1024} />}
							</Field>
							<Button kind="primary" class="wide" type="submit" busy={busy}>
								Log in
							</Button>
						</form>
						<p class="foot">
							No password yet? <code>pyro serve</code> prints a login link when it starts. Open this link.
						</p>
					</>
				)}
			</div>
		</main>
	);
}
