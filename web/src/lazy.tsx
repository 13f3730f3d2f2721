import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button, Notice } from "./ui";

/** lazy returns a component whose code is loaded when it is first shown. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
	let loaded: ComponentType<P> | undefined;
	return function Lazy(props: P) {
		const [, again] = useState(0);
		const [failed, setFailed] = useState(false);
		useEffect(() => {
			if (!loaded)
				load().then(
					(view) => {
						loaded = view;
						again((n) => n + 1);
					},
					() => setFailed(true),
				);
		}, []);
		if (loaded) {
			const View = loaded;
			return <View {...props} />;
		}
		if (!failed) return <div class="grow" aria-busy="true" />;
		return (
			<div class="page">
				<Notice>
					A part of this page could not be loaded. The server may have a newer version. <Button small onClick={() => location.reload()}>Load the page again</Button>
				</Notice>
			</div>
		);
	};
}
