// What the browser keeps: for a tab (sessionStorage) or for this address (localStorage). A browser may refuse to keep anything.
const kept = {
  read(storage, name) { try { return JSON.parse(window[storage].getItem(`yamata.${name}`)); } catch { return null; } },
  write(storage, name, value) {
    try {
      if (value === null) window[storage].removeItem(`yamata.${name}`);
      else window[storage].setItem(`yamata.${name}`, JSON.stringify(value));
    } catch { /* full, or forbidden */ }
  },
};
