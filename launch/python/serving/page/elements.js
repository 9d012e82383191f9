// The elements of the page. What a model writes is hostile text: nothing here parses HTML; elements are made one by one, and text stays
// text.

const $ = id => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children, which are elements or texts. `onclick` is a listener. */
function make(tag, attributes = {}, ...children) {
  const element = ['svg', 'rect', 'polyline'].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'onclick') element.addEventListener('click', value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

/** A button that says "Copied" for a moment. `text`: a function. */
function copyButton(text, label) {
  const button = make('button', {type: 'button', 'aria-label': label, onclick: async () => {
    let done = 'Copied';
    try {
      await navigator.clipboard.writeText(text());
    } catch { // no secure context: a server that is reached by a name without TLS
      const area = make('textarea', {class: 'unseen', readonly: true});
      area.value = text();
      document.body.append(area);
      area.select();
      if (!document.execCommand('copy')) done = 'Not allowed';
      area.remove();
      button.focus();
    }
    button.textContent = done;
    say(done);
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  }}, 'Copy');
  return button;
}

/** A message of the server as a sentence. A first word that is the name of a field stays as it is. */
function sentence(message) {
  const begun = message.replace(/^[a-z](?=[a-z’'-]*[ ,;:])/, letter => letter.toUpperCase());
  return /[\p{L}\p{N})]$/u.test(begun) ? `${begun}.` : begun;
}

/** Says a text to people who listen to a screen reader. */
function say(text) { $('status').textContent = text; }
