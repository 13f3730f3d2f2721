/** Retry calls a function later, to connect again. The time until then doubles with each try. */
export class Retry {
	/** tries is how often again was called since the connection worked. Its owner sets it to 0. */
	tries = 0;
	private timer: ReturnType<typeof setTimeout> | undefined;

	/** first and last are the shortest and the longest time, in milliseconds. */
	constructor(
		private readonly first: number,
		private readonly last: number,
	) {}

	again(connect: () => void) {
		this.stop();
		this.timer = setTimeout(connect, Math.min(this.last, this.first * 2 ** this.tries++));
	}

	/** stop prevents the call. */
	stop() {
		clearTimeout(this.timer);
	}
}
