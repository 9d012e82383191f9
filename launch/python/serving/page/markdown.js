// Markdown, from text to elements.

const MAX_DEPTH = 8, MAX_INLINE = 20000, MAX_REACH = 4000; // of nesting; characters of a paragraph; characters between two marks

/** The address, if it is one of the web; else null. */
function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch { return null; }
}

function link(address, ...children) {
  return make('a', {href: address, title: address, target: '_blank', rel: 'noopener noreferrer nofollow'}, ...children);
}

const MARK = /\\([!-/:-@[-`{-~])|(`+)|(\*\*\*|\*\*|\*|___|__|_|~~)(?=\S)|(!?)\[|<?(https?:\/\/[^\s<>"'`]+)>?| *\n|\\\n/g;
const EMPHASIS = {'*': ['em'], '**': ['strong'], '***': ['strong', 'em'], '~~': ['s']};
EMPHASIS._ = EMPHASIS['*'];
EMPHASIS.__ = EMPHASIS['**'];
EMPHASIS.___ = EMPHASIS['***'];

/** Where the mark that ends an emphasis is; -1: nowhere. */
function closing(text, mark, from) {
  const reach = Math.min(text.length, from + MAX_REACH), letter = /[\p{L}\p{N}]/u;
  for (let at = text.indexOf(mark, from); at >= 0 && at < reach; at = text.indexOf(mark, at + 1)) {
    const next = text[at + mark.length] ?? '';
    if (/\s/.test(text[at - 1]) || at === from || text[at - 1] === '\\') continue;
    if (mark[0] === '_' && letter.test(next)) continue;
    if (next === mark[0] && mark.length < 3) { at += mark.length; continue; }
    return at;
  }
  return -1;
}

/** The end of "[text](address)" that begins at a bracket: {text, address, end}; null: it is no link. */
function linkAt(text, bracket) {
  const part = text.slice(bracket, bracket + MAX_REACH);
  const found = /^\[((?:[^[\]\\]|\\.|\[[^[\]]*\])*)\]\(\s*<?([^\s<>]*?)>?(?:\s+"[^"]*")?\s*\)/.exec(part);
  return found && {text: found[1], address: found[2], end: bracket + found[0].length};
}

/** An address in a text without the punctuation behind it. */
function withoutPunctuation(address) {
  return address.replace(/[.,;:!?)\]*_~]+$/, rest => (rest[0] === ')' && address.includes('(') ? ')' : ''));
}

/** Appends the text with its emphasis, code and links to an element. */
function inline(element, text, depth = 0) {
  if (depth > MAX_DEPTH || text.length > MAX_INLINE) { element.append(text); return; }
  let from = 0;
  const mark = new RegExp(MARK);
  const add = (start, end, ...nodes) => { element.append(text.slice(from, start), ...nodes); mark.lastIndex = from = end; };
  for (let found; (found = mark.exec(text));) {
    const at = found.index, end = mark.lastIndex, [all, escaped, ticks, stars, , address] = found;
    if (escaped) add(at, end, escaped);
    else if (ticks) {
      const close = text.indexOf(ticks, end);
      if (close > 0) add(at, close + ticks.length, make('code', {}, text.slice(end, close).replace(/^ (.+) $/, '$1')));
    } else if (stars) {
      const inWord = stars[0] === '_' && /[\p{L}\p{N}]/u.test(text[at - 1] ?? ' ');
      const close = inWord ? -1 : closing(text, stars, end);
      if (close < 0) continue;
      const outer = make(EMPHASIS[stars][0]), inner = EMPHASIS[stars][1] ? outer.appendChild(make(EMPHASIS[stars][1])) : outer;
      inline(inner, text.slice(end, close), depth + 1);
      add(at, close + stars.length, outer);
    } else if (address) {
      const closed = all[0] === '<', plain = closed ? address : withoutPunctuation(address), href = webAddress(plain);
      if (href) add(at, closed ? end : at + plain.length, link(href, plain));
    } else if (all.endsWith('\n')) add(at, end, make('br')); // models mean the ends of their lines: poems, addresses
    else {
      const its = linkAt(text, end - 1), href = its && webAddress(its.address);
      if (!its) continue;
      const inner = href ? link(href) : make('span');
      inline(inner, its.text || its.address, depth + 1);
      if (!href && its.address) inner.append(` (${its.address})`);
      add(at, its.end, inner);
    }
  }
  element.append(text.slice(from));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/, ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/, HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/, QUOTE = /^ {0,3}> ?/, TABLE = /^ *\|?( *:?-+:? *\|)+( *:?-+:? *)?$/;

function startsBlock(line) { return FENCE.test(line) || ITEM.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line); }

const indentOf = line => /^ */.exec(line)[0].length;
const isOrdered = line => /^ *\d/.test(line);

/** Whether a line belongs to the list above it, whose items have an indentation. */
function continuesList(lines, at, indent, ordered) {
  const line = lines[at], isItsItem = one => ITEM.test(one) && isOrdered(one) === ordered && !RULE.test(one);
  if (!line.trim()) {
    const next = lines.slice(at, at + 3).find(one => one.trim());
    return next !== undefined && (indentOf(next) > indent || isItsItem(next));
  }
  if (indentOf(line) > indent || isItsItem(line)) return true;
  return lines[at - 1].trim() !== '' && !startsBlock(line);
}

/** Where the block that begins at a line ends, and its kind. */
function blockAt(lines, at) {
  const line = lines[at], fence = FENCE.exec(line);
  let end = at + 1;
  if (fence) {
    const closed = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
    while (end < lines.length && !closed.test(lines[end])) end++;
    return {kind: 'code', end: Math.min(end + 1, lines.length), language: fence[2].trim().split(/\s/)[0], inside: lines.slice(at + 1, end)};
  }
  if (HEADING.test(line)) return {kind: 'heading', end};
  if (RULE.test(line)) return {kind: 'rule', end};
  if (QUOTE.test(line)) {
    while (end < lines.length && lines[end].trim() && (QUOTE.test(lines[end]) || !startsBlock(lines[end]))) end++;
    return {kind: 'quote', end};
  }
  if (ITEM.test(line)) {
    const ordered = isOrdered(line);
    while (end < lines.length && continuesList(lines, end, indentOf(line), ordered)) end++;
    return {kind: ordered ? 'ol' : 'ul', end};
  }
  if (line.includes('|') && TABLE.test(lines[at + 1] ?? '')) {
    while (end < lines.length && lines[end].includes('|')) end++;
    return {kind: 'table', end};
  }
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end])) end++;
  return {kind: 'paragraph', end};
}

function codeBlock(code, language) {
  const element = make('code', {}, code);
  const bar = make('div', {class: 'bar'}, make('span', {}, language || 'text'), copyButton(() => code, 'Copy the code'));
  return make('div', {class: 'code'}, bar, make('pre', {tabindex: 0, role: 'region', 'aria-label': 'Code'}, element));
}

function list(kind, lines, depth) {
  const first = ITEM.exec(lines[0]), element = make(kind, {start: kind === 'ol' ? parseInt(first[2]) : undefined});
  let item = null, width = 0;
  const finish = () => { if (item) element.append(fill(make('li'), item, depth + 1, true)); };
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= first[1].length + 1) {
      finish();
      width = found[0].length;
      item = [line.slice(width)];
    } else item.push(line.slice(Math.min(width, indentOf(line))));
  }
  finish();
  return element;
}

function table(lines) {
  const cells = line => line.trim().replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());
  const sides = cells(lines[1]).map(rule => /^:.*:$/.test(rule) ? 'center' : rule.endsWith(':') ? 'right' : undefined);
  const row = (line, tag) => {
    const element = make('tr');
    cells(line).forEach((cell, i) => inline(element.appendChild(make(tag, {class: sides[i]})), cell));
    return element;
  };
  return make('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Table'},
    make('table', {}, make('thead', {}, row(lines[0], 'th')), make('tbody', {}, ...lines.slice(2).map(line => row(line, 'td')))));
}

/** The element of a block. `tight`: a paragraph of a list's item, which needs no element. */
function blockElement(block, lines, depth, tight) {
  const text = lines.join('\n');
  switch (block.kind) {
    case 'code': return codeBlock(block.inside.join('\n'), block.language);
    case 'rule': return make('hr');
    case 'quote': return fill(make('blockquote'), lines.map(line => line.replace(QUOTE, '')), depth + 1);
    case 'ul': case 'ol': return list(block.kind, lines, depth);
    case 'table': return table(lines);
  }
  const found = block.kind === 'heading' && HEADING.exec(text);
  const element = make(found ? `h${Math.min(5, found[1].length + 1)}` : tight ? 'span' : 'p');
  inline(element, found ? found[2] : lines.map(line => line.replace(/^ +/, '')).join('\n'));
  return element;
}

/** Appends lines of Markdown to an element. */
function fill(element, lines, depth = 0, tight = false) {
  if (depth > MAX_DEPTH) { element.append(lines.join('\n')); return element; }
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) { at++; continue; }
    const block = blockAt(lines, at);
    element.append(blockElement(block, lines.slice(at, block.end), depth, tight && !lines.some(line => !line.trim())));
    at = block.end;
  }
  return element;
}

/** Shows Markdown that grows: only blocks that have changed are made anew. */
class GrowingMarkdown {
  constructor(element) { this.element = element; this.blocks = []; }

  show(text) {
    const lines = text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n');
    let count = 0;
    for (let at = 0; at < lines.length;) {
      if (!lines[at].trim()) { at++; continue; }
      const block = blockAt(lines, at), its = lines.slice(at, block.end), source = its.join('\n'), old = this.blocks[count];
      at = block.end;
      if (old?.source !== source) {
        const element = blockElement(block, its, 0, false);
        if (old) old.element.replaceWith(element); else this.element.append(element);
        this.blocks[count] = {source, element};
      }
      count++;
    }
    for (const {element} of this.blocks.splice(count)) element.remove();
  }
}
