/** Retry calls a function after some time, to connect again. The time doubles with each try. */
export class Retry {
	/** tries counts the calls of again. The owner sets it to 0 when the connection works. */
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

	/** stop prevents the next call. */
	stop() {
		clearTimeout(this.timer);
	}
}
