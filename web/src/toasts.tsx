import { CircleAlert, CircleCheck, Undo2, X } from "lucide-preact";
import { dismiss, holdDeletions, messages } from "./messages";
import { Button } from "./ui";

/** Toasts shows the messages. While the pointer or the focus is on them, deletions wait. */
export function Toasts() {
	return (
		<div
			class="toasts"
			role="status"
			aria-live="polite"
			onPointerEnter={() => holdDeletions(true)}
			onPointerLeave={(e) => holdDeletions(e.currentTarget.matches(":focus-within"))}
			onFocusIn={() => holdDeletions(true)}
			onFocusOut={(e) => holdDeletions(e.currentTarget.matches(":hover"))}
		>
			{messages.value.map((m) => (
				<div key={m.id} class={`toast ${m.bad ? "bad" : ""}`}>
					{m.bad ? <CircleAlert size={16} aria-hidden /> : <CircleCheck size={16} aria-hidden />}
					<span class="grow">{m.text}</span>
					{m.undo ? (
						<Button small icon={Undo2} onClick={m.undo}>
							Undo
						</Button>
					) : (
						<Button kind="quiet" small icon={X} label="Dismiss" onClick={() => dismiss(m.id)} />
					)}
				</div>
			))}
		</div>
	);
}
