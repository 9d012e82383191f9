// The start of the page: waits until the model is loaded.

function showBanner(text, share) {
  if (text && text !== $('banner-text').textContent) say(text);
  following(() => {
    $('banner').hidden = !text;
    $('banner-text').textContent = text ?? '';
    $('banner-share').hidden = share === undefined;
    $('banner-share').value = share ?? 0;
  });
}

/** Waits until the model is loaded, and says how far it is. */
async function untilLoaded() {
  for (;;) {
    const response = await fetch('health', {cache: 'no-store'}).catch(() => null);
    const health = await response?.json().catch(() => ({})) ?? {};
    if (response?.ok) break;
    const percent = health.percent;
    const loads = response && (health.status ?? 'loading') === 'loading';
    const why = response ? sentence(health.error?.message ?? 'the server is not ready') : GONE;
    showBanner(loads ? 'Loading the model' : why, loads && percent !== undefined ? percent / 100 : undefined);
    await new Promise(resolve => { setTimeout(resolve, 1000); });
  }
  if (!$('banner').hidden) say('The model is ready.');
  showBanner();
}

/** The properties of the server; it may say for a moment that it is not ready. */
async function properties() {
  for (;;) {
    try {
      return await (await call('props')).json();
    } catch (error) {
      if (error.status !== 503) return {layout: error.status === 401 ? 'The server asks for a key.' : ''};
      await new Promise(resolve => { setTimeout(resolve, 500); });
    }
  }
}

async function describe() {
  const props = await properties();
  const name = props.model_alias || (props.model_path ?? '').split('/').pop();
  const hosts = new Set((props.ranks ?? []).map(rank => rank.host)).size;
  model = {id: name || undefined, about: name && (hosts > 1 ? `${name} on ${hosts} machines` : name)};
  $('model').textContent = $('model').title = name ?? '';
  document.title = name ? `${name} – Yamata` : 'Yamata';
  const temperature = props.default_generation_settings?.params?.temperature ?? props.default_generation_settings?.temperature;
  if (temperature !== undefined) $('temperature').placeholder = String(Math.round(100 * temperature) / 100);
  showMachines(props);
  if (!chat.messages.length) showChat();
}

/** Waits for the model, also when the server is back, and says what it is. */
async function connect() {
  ready = false;
  rates.length = samples.length = 0;
  showFigures([], {});
  await untilLoaded();
  ready = true;
  await describe();
  pollSoon();
}

showChat();
showBusy();
showClusterBeside();
connect();
