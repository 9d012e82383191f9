// The picture of the cluster, and how far an answer is.

const HISTORY = 60, RATE_MS = 5000;
const rates = [], samples = [];
let timer = 0, ready = false, shownEngine = '';

/** The first and last layer of a rank, from "0-9", "3" or ""; null: it holds none. */
function layersOf(rank) {
  const found = /^(\d+)(?:-(\d+))?$/.exec(rank.layers ?? '');
  return found && {first: Number(found[1]), last: Number(found[2] ?? found[1])};
}

/** A bar of which a part, [begin, end] of a total, is filled. */
function bar(total, part) {
  const x = 100 * part[0] / total, width = 100 * (part[1] - part[0]) / total;
  return make('svg', {viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    make('rect', {class: 'track', width: 100, height: 4}), make('rect', {class: 'held', x, width, height: 4}));
}

function showMachines(props) {
  const ranks = props.ranks ?? [], hosts = ranks.map(rank => rank.host);
  const total = 1 + Math.max(0, ...ranks.map(rank => layersOf(rank)?.last ?? 0));
  $('layout').textContent = props.layout ?? '';
  $('machines').replaceChildren(...ranks.map(rank => {
    const held = layersOf(rank), share = rank.share > 0 && rank.share < 1 ? `, ${Math.round(100 * rank.share)} % of each` : '';
    const what = held ? `layers ${held.first}–${held.last}${share}` : rank.role === 'drafter' ? 'guesses tokens' : rank.role ?? '';
    const alone = rank.host && hosts.indexOf(rank.host) === hosts.lastIndexOf(rank.host);
    const name = alone ? rank.host : `${rank.host ?? ''} rank ${rank.rank}`;
    return make('li', {}, make('div', {class: 'who'}, make('b', {}, name), make('span', {}, what)),
      ...(held ? [bar(total, [held.first, held.last + 1])] : []));
  }));
}

/** {name: sum over labels} of a page in the format of Prometheus. */
function readMetrics(text) {
  const sums = {};
  for (const [, name, value] of text.matchAll(/^(\w+)(?:\{[^}]*\})? (\S+)/gm)) sums[name] = (sums[name] ?? 0) + Number(value);
  return sums;
}

/** How many tokens of its answer a slot has. */
function decodedOf(slot) { return slot.next_token?.[0]?.n_decoded ?? 0; }

function figure(name, value, picture) {
  const pictures = picture ? [make('dd', {class: 'picture'}, picture)] : [];
  return make('div', {}, make('dt', {}, name), make('dd', {}, make('b', {}, value)), ...pictures);
}

function curve(values) {
  const most = Math.max(1, ...values), x = i => 100 * (HISTORY - values.length + i) / (HISTORY - 1);
  const points = values.map((value, i) => `${x(i)},${29 - 27 * value / most}`).join(' ');
  return make('svg', {class: 'rate', viewBox: '0 0 100 30', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    make('polyline', {class: 'curve', points}));
}

/** Notes how many tokens have been generated, by all answers; returns how many came per second in the last seconds. */
function measureRate(tokens) {
  const now = performance.now(), before = samples.at(-1);
  const since = sample => Math.max(0, (tokens - sample.tokens) / ((now - sample.now) / 1000));
  if (before) rates.push(since(before));
  rates.splice(0, rates.length - HISTORY);
  samples.push({tokens, now});
  while (samples.length > 2 && now - samples[1].now >= RATE_MS) samples.shift();
  return before ? since(samples[0]) : 0;
}

/** How many slots are busy, and how much of the cache. */
function slotFigures(slots, metrics) {
  const {yamata_requests_waiting: waiting, yamata_cache_cells: cells, yamata_cache_cells_used: used = 0} = metrics;
  const busy = slots.filter(slot => slot.is_processing).length, parts = [];
  if (slots.length) parts.push(figure('Answers in progress', `${busy} of ${slots.length}`));
  if (waiting) parts.push(figure('Requests waiting', String(waiting)));
  if (cells) {
    const meter = bar(cells, [0, used]);
    meter.classList.add('meter');
    parts.push(figure('Cache in use', `${Math.round(100 * used / cells)} % of ${tokensOf(cells)}`, meter));
  }
  if (metrics.yamata_pauses_total) parts.push(figure('Pauses for lack of cache', String(metrics.yamata_pauses_total)));
  return parts;
}

/** What was lost so far, and is missing now. */
function lossFigures({yamata_machines: all, yamata_machines_here: here, yamata_losses_total: losses}) {
  const parts = [];
  if (here < all) parts.push(figure('Machines', `${here} of ${all}`));
  if (losses) parts.push(figure('Losses survived', String(losses)));
  return parts;
}

function showFigures(slots, metrics) {
  const busy = slots.filter(slot => slot.is_processing), parts = [];
  if (metrics.yamata_completion_tokens_total !== undefined) {
    const rate = measureRate(metrics.yamata_completion_tokens_total);
    parts.push(figure('Tokens/s', rate.toFixed(1), rates.some(one => one) && curve(rates)));
  }
  if (metrics.yamata_runs_in_flight !== undefined) {
    const runs = busy.length ? metrics.yamata_runs_in_flight : 0; // what is counted twice a second may be older
    const marks = make('div', {class: 'runs', 'aria-hidden': 'true'}, ...Array.from({length: Math.min(64, runs)}, () => make('i')));
    parts.push(figure('Runs in flight', String(runs), runs > 0 && marks));
  }
  const {yamata_guesses_total: guesses, yamata_guesses_accepted_total: accepted} = metrics;
  if (guesses) {
    const meter = bar(guesses, [0, accepted ?? 0]);
    meter.classList.add('meter');
    parts.push(figure('Guesses accepted', `${Math.round(100 * accepted / guesses)} % of ${guesses}`, meter));
  }
  $('figures').replaceChildren(...parts, ...slotFigures(slots, metrics), ...lossFigures(metrics));
}

/** Says how far the answer is. */
function showProgress(slots) {
  const message = answering?.view?.message, now = performance.now();
  if (!message || !answering.response) return;
  const slot = slots.find(one => one.is_processing && one.response === answering.response);
  if (slot) {
    const {n_prompt_tokens: prompt, n_prompt_computed: computed} = slot, tokens = decodedOf(slot), last = answering.seen;
    const rate = last?.tokens > 0 ? (tokens - last.tokens) / ((now - last.now) / 1000) : 0;
    answering.seen = {tokens, now};
    if (tokens) message.figures = tokensOf(tokens) + (rate ? ` · ${rate.toFixed(1)} tokens/s` : '');
    else if (prompt && !message.content && !message.thinking) message.figures = `reading ${computed ?? 0} of ${tokensOf(prompt)}`;
  } else if (!message.content && !message.thinking && slots.every(one => one.is_processing)) {
    message.figures = 'waiting for another answer to end';
  }
  following(() => answering.view.showFoot());
}

/** Shows how the cluster is, and returns whether the model answers somebody. */
async function showState() {
  const [slots, metrics] = await Promise.all([call('slots', {quiet: true}).then(response => response.json()),
    call('metrics', {quiet: true}).then(response => response.text())]);
  if (!ready) return false; // the server has gone since
  const figures = readMetrics(metrics), engine = `${figures.yamata_engine_generation} ${figures.yamata_ready}`;
  showFigures(slots, figures);
  showProgress(slots);
  if (shownEngine && shownEngine !== engine) await describe(); // over other machines than before
  shownEngine = engine;
  return slots.some(slot => slot.is_processing) || rates.at(-1) > 0;
}

/** Asks how the cluster is: once a second while the model answers somebody, else less often. If its picture is not seen, asks only whether
 * the server is there. */
async function poll() {
  timer = 0;
  if (!ready || document.hidden) return;
  let busy = false;
  try {
    if (answering || !$('cluster').hidden) {
      busy = await showState();
      if (!model.id) await describe(); // the key is known only now
    }
    else await call('health', {quiet: true});
  } catch (error) {
    if (error.status === 0 || error.status === 503) return ready && connect();
    showFigures([], {}); // no key
  }
  if (ready) timer ||= setTimeout(poll, answering || busy ? 1000 : 5000);
}

function pollSoon() {
  clearTimeout(timer);
  timer = setTimeout(poll, 0);
}

function showCluster(shown) {
  following(() => {
    $('cluster').hidden = !shown;
    $('show-cluster').setAttribute('aria-expanded', shown);
    document.body.classList.toggle('with-cluster', shown);
  });
  pollSoon();
}

const wide = matchMedia('(min-width: 62rem)'); // else the picture lies over the chat
function uncoverChat() { if (!wide.matches && !$('cluster').hidden) showCluster(false); }
/** In a wide window as the user left it, in a narrow one not at first. */
function showClusterBeside() { showCluster(wide.matches && (kept.read('localStorage', 'cluster') ?? true)); }
wide.addEventListener('change', showClusterBeside);
document.addEventListener('click', event => { if (!event.target.closest('#cluster, #show-cluster')) uncoverChat(); });

$('show-cluster').addEventListener('click', () => {
  showCluster($('cluster').hidden);
  if (wide.matches) kept.write('localStorage', 'cluster', !$('cluster').hidden);
});
document.addEventListener('visibilitychange', pollSoon);
