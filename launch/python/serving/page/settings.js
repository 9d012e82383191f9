// The settings and their dialog.

const settings = {system: '', temperature: null, maxTokens: null, ...kept.read('localStorage', 'settings')};

$('show-settings').addEventListener('click', () => {
  $('system').value = settings.system;
  $('temperature').value = settings.temperature ?? '';
  $('max-tokens').value = settings.maxTokens ?? '';
  $('forget-key').hidden = !key;
  $('forget-key').disabled = false;
  $('forget-key').textContent = 'Forget the key';
  $('settings').showModal();
});
$('settings-form').addEventListener('submit', () => {
  const number = id => $(id).value === '' ? null : Number($(id).value);
  Object.assign(settings, {system: $('system').value.trim(), temperature: number('temperature'), maxTokens: number('max-tokens')});
  kept.write('localStorage', 'settings', settings);
});
for (const [button, dialog] of [['settings-cancel', 'settings'], ['key-cancel', 'ask-key']]) {
  $(button).addEventListener('click', () => $(dialog).close('cancel'));
}
$('forget-key').addEventListener('click', () => {
  kept.write('sessionStorage', 'key', key = null);
  $('forget-key').disabled = true;
  say($('forget-key').textContent = 'The key is forgotten');
});
