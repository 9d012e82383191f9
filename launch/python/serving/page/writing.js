// The field for the next message, its keys and buttons.

const typesOnGlass = matchMedia('(pointer: coarse)');
/** Whether a key sends the text: Enter does, except with Shift, on a phone, and while a word is composed. */
function sends(event) { return event.key === 'Enter' && !event.shiftKey && !event.isComposing && !typesOnGlass.matches; }

function grow(area) {
  area.style.height = 'auto';
  area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
}

function showBusy() {
  $('send').textContent = answering ? 'Stop' : 'Send';
  $('send').disabled = !answering && !$('prompt').value.trim();
  $('new').disabled = Boolean(answering) || !chat.messages.length;
  for (const edit of document.querySelectorAll('.user .tools button')) edit.disabled = Boolean(answering);
  document.body.classList.toggle('busy', Boolean(answering));
}

$('compose').addEventListener('submit', event => {
  event.preventDefault();
  const text = $('prompt').value.trim();
  if (answering) answering.abort.abort();
  else if (text) {
    $('prompt').value = '';
    grow($('prompt'));
    ask(text);
    toEnd();
  }
});
$('prompt').addEventListener('keydown', event => {
  if (sends(event)) {
    event.preventDefault();
    if (!answering) $('compose').requestSubmit();
  } else if (event.key === 'ArrowUp' && !$('prompt').value && !answering) {
    views.findLast(view => view instanceof UserView)?.open();
    event.preventDefault();
  }
});
$('prompt').addEventListener('input', () => following(() => { grow($('prompt')); showBusy(); }));
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
  if (answering) answering.abort.abort();
  else uncoverChat();
});
$('new').addEventListener('click', () => {
  before = chat.messages;
  chat.messages = [];
  keepChat();
  showChat();
  $('prompt').focus();
});
$('to-end').addEventListener('click', () => { toEnd(); $('prompt').focus(); });
window.addEventListener('scroll', () => { $('to-end').hidden = nearEnd(); }, {passive: true});
// A button that is hidden says that the end was visible before.
window.addEventListener('resize', () => {
  grow($('prompt'));
  if ($('to-end').hidden) toEnd();
});
window.addEventListener('pagehide', () => {
  if (answering) {
    answering.left = true;
    answering.view.message.note = 'The page was left before the answer was complete.';
    delete answering.view.message.figures;
  }
  keepChat();
});
window.addEventListener('pageshow', event => { if (event.persisted && answering?.left) location.reload(); });
