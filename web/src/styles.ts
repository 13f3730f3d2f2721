/**
 * adoptStyles defines the element adopted-style. It works like style, but a
 * Content-Security-Policy without unsafe-inline permits it. The build makes xterm.js use it.
 */
export function adoptStyles() {
	if (customElements.get("adopted-style")) return;
	const Base = HTMLElement as unknown as new () => object; // its textContent is never set to null here
	class Style extends Base {
		#sheet = new CSSStyleSheet();
		set textContent(text: string) {
			this.#sheet.replaceSync(text);
		}
		connectedCallback() {
			document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#sheet];
		}
		disconnectedCallback() {
			document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== this.#sheet);
		}
	}
	customElements.define("adopted-style", Style as unknown as CustomElementConstructor);
}
