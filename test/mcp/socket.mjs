// Runs a program and uses a terminal over WebSockets, as a browser does: with the API key in the
// first frame. The argument is the address of a sandbox, and KEY is the key.
const [base] = process.argv.slice(2)

function open(path, key = process.env.KEY) {
  const socket = new WebSocket(base + path)
  const frames = []
  let wake = () => {}
  socket.onopen = () => socket.send(JSON.stringify({ type: 'auth', token: key }))
  socket.onmessage = (e) => { frames.push(JSON.parse(e.data)); wake() }
  const closed = new Promise((resolve) => { socket.onclose = (e) => { wake(); resolve(e.code) } })
  const opened = new Promise((resolve) => socket.addEventListener('open', resolve))
  return {
    closed,
    send: async (frame) => { await opened; socket.send(JSON.stringify(frame)) },
    next: async () => {
      while (frames.length === 0) {
        if (socket.readyState === WebSocket.CLOSED) throw new Error('closed')
        await new Promise((resolve) => { wake = resolve })
      }
      return frames.shift()
    },
  }
}

function equal(got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}

const program = open('/exec/stream')
await program.send({ type: 'start', cmd: 'echo', args: ['hello', 'é'] })
equal((await program.next()).type, 'start')
equal(await program.next(), { type: 'stdout', data: 'hello é\n' })
equal(await program.next(), { type: 'exit', exit_code: 0 })
equal(await program.closed, 1000)

const terminal = open('/pty')
await terminal.send({ type: 'start', cols: 91, rows: 31 })
const { type, tag } = await terminal.next()
equal([type, tag.startsWith('pty-')], ['started', true])
await terminal.send({ type: 'input', data: btoa('stty size; exit 4\r') })
let shown = ''
let frame
for (frame = await terminal.next(); frame.type === 'output'; frame = await terminal.next()) shown += atob(frame.data)
if (!shown.includes('31 91\r\n')) throw new Error('it showed ' + shown)
equal(frame, { type: 'exit', exit_code: 4 })
equal(await terminal.closed, 1000)

const stranger = open('/pty', 'wrn_0')
equal((await stranger.next()).code, 'unauthorized')
equal(await stranger.closed, 1008)
console.log('ok')
