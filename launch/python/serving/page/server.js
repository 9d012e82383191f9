// Requests to the server, its key, and streams of events.

let key = kept.read('sessionStorage', 'key'), asking = null;

/** Asks for the key; false: the user does not give one. */
function askKey() {
  asking ??= new Promise(resolve => {
    const dialog = $('ask-key');
    $('key').value = '';
    $('key-hint').textContent = key ? 'The server does not take the key that was given.' : 'It is kept until this tab is closed.';
    dialog.returnValue = '';
    dialog.addEventListener('close', () => {
      asking = null;
      if (dialog.returnValue === 'use') kept.write('sessionStorage', 'key', key = $('key').value.trim());
      resolve(dialog.returnValue === 'use');
    }, {once: true});
    dialog.showModal();
  });
  return asking;
}

const GONE = 'The server cannot be reached.';

/** `status`: of HTTP; 0: no answer came. */
class ServerError extends Error {
  constructor(error, status) {
    super(error?.message ? sentence(error.message) : `The server answered with ${status}.`);
    this.code = error?.code;
    this.status = status;
  }
}

/** The response to a request, which is successful. Raises ServerError. `quiet`: asks for no key. */
async function call(path, {quiet = false, ...options} = {}) {
  const headers = {...options.headers, ...(key && {Authorization: `Bearer ${key}`})}, used = key;
  const response = await fetch(path, {...options, headers, cache: 'no-store'}).catch(error => {
    throw error instanceof TypeError ? new ServerError({message: GONE}, 0) : error;
  });
  if (response.status === 401 && !quiet && (used !== key || await askKey())) return call(path, options);
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ServerError(body?.error, response.status);
}

/** The events of a stream, as objects; comments are {comment}. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', data = [];
  for (;;) {
    const {value, done} = await reader.read();
    const lines = (rest + (value ?? '')).split(/\r?\n/);
    rest = done ? '' : lines.pop();
    for (const line of lines) {
      if (line.startsWith(':')) yield {comment: line.slice(1).trim()};
      else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
      else if (!line && data.length) {
        const text = data.join('\n');
        data = [];
        if (text === '[DONE]') return;
        yield JSON.parse(text);
      }
    }
    if (done) throw new Error('The server ended the answer before it was complete.');
  }
}
