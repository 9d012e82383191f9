// The conversation and how its messages are shown.

/** messages: {role, content, thinking, thought_s, figures, note, error}. */
const chat = {messages: kept.read('sessionStorage', 'chat') ?? []};
let views = [], answering = null, model = {};
let before = kept.read('sessionStorage', 'before') ?? []; // the messages of the chat before a new one

function keepChat() {
  for (const [name, messages] of [['chat', chat.messages], ['before', before]]) {
    kept.write('sessionStorage', name, messages.length ? messages : null);
  }
}

function nearEnd() { return window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 90; }
function toEnd() { window.scrollTo(0, document.documentElement.scrollHeight); }

/** Does what changes the page, and stays at its end if that was visible. */
function following(change) {
  const follows = nearEnd();
  change();
  if (follows) toEnd();
  $('to-end').hidden = nearEnd();
}

/** A message of the user, which can be edited. */
class UserView {
  constructor(message, index) {
    this.message = message;
    this.index = index;
    this.root = make('section', {class: 'message user', 'aria-label': 'You'});
    this.show();
  }

  show() {
    this.root.classList.remove('editing');
    this.edit = make('button', {type: 'button', 'aria-label': 'Edit this message', onclick: () => this.open()}, 'Edit');
    this.root.replaceChildren(make('div', {class: 'said'}, this.message.content), make('div', {class: 'tools'}, this.edit));
  }

  open() {
    if (answering) return;
    const area = make('textarea', {'aria-label': 'Edit the message', rows: 1});
    const close = () => { this.show(); this.edit.focus(); };
    const send = () => {
      if (!area.value.trim()) return;
      chat.messages.length = this.index;
      ask(area.value.trim());
    };
    area.value = this.message.content;
    area.addEventListener('input', () => grow(area));
    area.addEventListener('keydown', event => {
      if (event.key === 'Escape') { event.stopPropagation(); close(); }
      if (sends(event)) { event.preventDefault(); send(); }
    });
    this.root.classList.add('editing');
    this.root.replaceChildren(area, make('div', {class: 'tools'}, make('button', {type: 'button', onclick: close}, 'Cancel'),
      make('button', {type: 'button', class: 'main', onclick: send}, 'Send')));
    grow(area);
    area.focus();
  }
}

/** An answer, which may still grow. */
class AnswerView {
  constructor(message, index) {
    this.message = message;
    this.index = index;
    this.thinkingText = make('div', {class: 'text'});
    this.summary = make('summary');
    this.thinking = make('details', {class: 'thinking', hidden: true}, this.summary, this.thinkingText);
    this.body = make('div', {class: 'text'});
    this.foot = make('div');
    this.root = make('section', {class: 'message answer', 'aria-label': 'Answer'}, this.thinking, this.body, this.foot);
    this.markdown = new GrowingMarkdown(this.body);
    this.thoughts = new GrowingMarkdown(this.thinkingText);
    this.thinking.addEventListener('toggle', () => this.thoughts.show(this.thinking.open ? this.message.thinking : ''));
    this.show();
  }

  get grows() { return answering?.view === this; }

  show() {
    const {content, thinking, thought_s: seconds} = this.message;
    this.thinking.hidden = !thinking;
    this.summary.textContent = seconds === undefined ? (this.grows ? 'Thinking …' : 'Thoughts') : `Thought for ${seconds.toFixed(1)} s`;
    if (this.thinking.open) this.thoughts.show(thinking);
    this.markdown.show(content);
    this.body.classList.toggle('waiting', this.grows);
    this.root.setAttribute('aria-busy', this.grows);
    this.showFoot();
  }

  showFoot() {
    const {content, error, note, figures} = this.message, parts = [];
    if (note) parts.push(make('p', {class: 'note'}, note));
    if (error) parts.push(make('p', {class: 'error', role: 'alert'}, error));
    if (!this.grows) {
      const tools = make('div', {class: 'tools'});
      if (content) tools.append(copyButton(() => this.message.content, 'Copy the answer'));
      if (this.index === chat.messages.length - 1) {
        tools.append(make('button', {type: 'button', 'aria-label': 'Retry: another answer', onclick: () => retry()}, 'Retry'));
      }
      if (figures) tools.append(make('span', {class: 'figures'}, figures));
      parts.push(tools);
    } else if (figures) parts.push(make('div', {class: 'tools'}, make('span', {class: 'figures'}, figures)));
    this.foot.replaceChildren(...parts);
  }
}

function showChat() {
  views = chat.messages.map((message, index) => new (message.role === 'user' ? UserView : AnswerView)(message, index));
  const back = before.length ? [make('p', {}, make('button', {type: 'button', onclick: goBack}, 'Back to the last chat'))] : [];
  const empty = make('div', {class: 'empty'}, make('b', {}, 'What would you like to know?'), model.about ?? '', ...back);
  $('log').replaceChildren(...(views.length ? views.map(view => view.root) : [empty]));
  $('new').disabled = !views.length;
  toEnd();
}

function goBack() {
  chat.messages = before;
  before = [];
  keepChat();
  showChat();
  $('prompt').focus();
}
