// Asking the model, and what its answer brings.

const tokensOf = count => `${count} ${count === 1 ? 'token' : 'tokens'}`;

function figuresOf({timings, usage}) {
  const parts = [], tokens = timings?.predicted_n ?? usage?.completion_tokens;
  if (tokens) parts.push(tokensOf(tokens));
  if (timings?.predicted_per_second) parts.push(`${timings.predicted_per_second.toFixed(1)} tokens/s`);
  if (timings?.prompt_ms) parts.push(`first after ${(timings.prompt_ms / 1000).toFixed(2)} s`);
  if (timings?.draft_n) parts.push(`${Math.round(100 * (timings.draft_n_accepted ?? 0) / timings.draft_n)} % of guesses accepted`);
  return parts.join(' · ');
}

function requestBody() {
  const told = chat.messages.slice(0, -1).filter(message => message.role === 'user' || message.content);
  const system = settings.system ? [{role: 'system', content: settings.system}] : [];
  return {
    model: model.id ?? 'default', stream: true, stream_options: {include_usage: true},
    messages: [...system, ...told.map(({role, content}) => ({role, content}))],
    ...(settings.temperature !== null && {temperature: settings.temperature}),
    ...(settings.maxTokens !== null && {max_tokens: settings.maxTokens}),
  };
}

/** Adds what an event brings to the message. */
function take(message, event, started) {
  if (event.error) throw new ServerError(event.error);
  if (event.comment !== undefined) {
    if (event.comment && event.comment !== 'ping') message.note = sentence(event.comment);
    return;
  }
  answering.response ??= event.id;
  const choice = event.choices?.[0], delta = choice?.delta ?? {};
  if ((delta.content || delta.reasoning_content) && !message.content && !message.thinking) delete message.figures; // of the prompt
  if (delta.reasoning_content) message.thinking = (message.thinking ?? '') + delta.reasoning_content;
  if (delta.content) {
    delete message.note;
    if (message.thinking && message.thought_s === undefined) message.thought_s = (performance.now() - started) / 1000;
    message.content += delta.content;
  }
  if (choice?.finish_reason === 'length') message.note = 'The answer ended at the limit of its length.';
  if (event.timings || (event.usage && !message.timed)) {
    message.figures = figuresOf(event) || message.figures;
    message.timed = Boolean(event.timings);
  }
}

function explain(error) {
  if (error.code === 'context_length_exceeded') {
    return 'The chat no longer fits into the model’s context. Shorten the message, edit an earlier one, or begin a new chat.';
  }
  if (error.status === 401) return 'The server asks for a key. Retry to enter it.';
  if (error.status === 0 || error instanceof TypeError) return `${GONE} Is it still running?`;
  return error.message;
}

/** Lets the model answer the messages. */
async function answer() {
  const message = {role: 'assistant', content: ''}, abort = new AbortController(), started = performance.now();
  chat.messages.push(message);
  const view = {message};
  answering = {abort, view: null};
  showChat();
  answering.view = views.at(-1);
  let frame = 0;
  const draw = () => { frame ||= requestAnimationFrame(() => { frame = 0; following(() => answering?.view.show()); }); };
  draw();
  showBusy();
  say('The model is answering.');
  pollSoon();
  try {
    const response = await call('v1/chat/completions', {method: 'POST', headers: {'Content-Type': 'application/json'},
      body: JSON.stringify(requestBody()), signal: abort.signal});
    for await (const event of events(response)) { take(message, event, started); draw(); }
    if (!message.content && !message.thinking) message.note ??= 'The model ended its answer at once.';
  } catch (error) {
    if (answering.left) return;
    if (error.name === 'AbortError') message.note = 'Stopped.';
    else message.error = explain(error);
    delete message.figures; // those of a while ago
  }
  cancelAnimationFrame(frame);
  answering = null;
  keepChat();
  following(() => { for (const one of views) one.show(); });
  showBusy();
  say(message.error ? '' : message.content ? `Answer: ${message.content}` : 'No answer.'); // an error is an alert
  pollSoon();
}

function ask(text) {
  chat.messages.push({role: 'user', content: text});
  answer();
  $('prompt').focus();
}

function retry() {
  if (answering) return;
  chat.messages.pop();
  answer();
  $('prompt').focus();
}
