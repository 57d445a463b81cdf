// The page's document as HTML, with what stands in open shadow roots and in visible frames of the same origin put in the
// place where a reader sees it, with the lists that were collected while scrolling, and with consent overlays in templates.
() => {
  const heading = document.doctype ? '<!DOCTYPE html>\n' : '';
  const whole = document.documentElement;
  if (!whole) return '';
  const hidden = new Set(fetchly.overlays?.() ?? []);
  const rows = fetchly.rows?.() ?? new Map();
  const plain = () => ![...fetchly.all(whole)].some(element => element.shadowRoot || fetchly.framed(element));
  let html;
  try { html = !hidden.size && !rows.size && plain() ? whole.outerHTML : fetchly.copy(whole, hidden, rows).outerHTML; }
  catch { html = whole.outerHTML; }
  return (heading + html).toWellFormed();
}
