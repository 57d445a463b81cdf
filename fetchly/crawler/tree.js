// What our scripts share: a page's tree as a reader sees it, through open shadow roots and visible frames of the same
// origin. `fetchly` is an object of our own world, which the page's scripts cannot reach.
fetchly.framed ??= element => {
  // The body of the document inside a frame that a reader sees, if it is of this origin.
  if (element.localName !== 'iframe' && element.localName !== 'frame') return null;
  const box = element.getBoundingClientRect();
  if (box.width < 2 || box.height < 2) return null;
  try { return element.contentDocument?.body ?? null; } catch { return null; }
};

fetchly.all ??= function* (root) {
  // Every element under a node, in the order of the document. A stack: pages nest deeply.
  const stack = [root];
  while (stack.length) {
    const node = stack.pop();
    if (node.nodeType === Node.ELEMENT_NODE) yield node;
    const inside = [node.firstElementChild, node.shadowRoot?.firstElementChild, fetchly.framed(node)];
    if (node !== root && node.nextElementSibling) stack.push(node.nextElementSibling);
    for (const child of inside.reverse()) if (child) stack.push(child);
  }
};

fetchly.parentOf ??= node => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host
  ?? node.ownerDocument?.defaultView?.frameElement ?? null;

fetchly.textOf ??= node => {
  // The text that a reader may see, in one line; also what stands in shadow roots.
  const parts = [];
  const stack = [node];
  while (stack.length) {
    const next = stack.pop();
    if (next.nodeType === Node.TEXT_NODE) parts.push(next.data);
    else if (!['script', 'style', 'template', 'noscript'].includes(next.localName)) {
      const inside = fetchly.framed(next) ? [fetchly.framed(next)] : [...(next.shadowRoot?.childNodes ?? []), ...(next.childNodes ?? [])];
      stack.push(...inside.reverse());
    }
  }
  return parts.join(' ').replace(/\s+/g, ' ').trim();
};

fetchly.inert ??= document.implementation.createHTMLDocument(''); // no loads, no custom elements, no scripts

fetchly.copy ??= (root, hidden = new Set(), rows = new Map()) => {
  // A copy of a subtree in which everything stands where a reader sees it. `hidden` are elements that are put into a template,
  // `rows` the rows of lists (HTML) that show a part of them at a time.
  const top = fetchly.inert.createDocumentFragment();
  // Pairs still to be copied: a node of the page, and the parent that its copy gets.
  const stack = [[root, top]];
  while (stack.length) {
    const [node, parent] = stack.pop();
    if (node.nodeType !== Node.ELEMENT_NODE) { parent.append(fetchly.inert.importNode(node, true)); continue; }
    if (node.localName === 'slot' && node.getRootNode().host) {
      const assigned = node.assignedNodes();
      const list = rows.get(node.getRootNode().host);
      if (list && assigned.some(child => child.nodeType === Node.ELEMENT_NODE)) { parent.append(fetchly.parsed(list)); continue; }
      for (const child of [...(assigned.length ? assigned : node.childNodes)].reverse()) stack.push([child, parent]);
      continue;
    }
    const body = fetchly.framed(node);
    const twin = body ? fetchly.inert.createElement('div') : fetchly.inert.importNode(node, false);
    // A frame has a base address of its own: its links are written out.
    if (node.ownerDocument !== document) for (const name of ['href', 'src']) {
      if (node.hasAttribute?.(name) && typeof node[name] === 'string') twin.setAttribute(name, node[name]);
    }
    if (hidden.has(node)) {
      // Kept, where nobody reads it: hidden text might be taken for what scripts are about to show.
      const aside = fetchly.inert.createElement('template');
      aside.content.append(twin);
      parent.append(aside);
    } else parent.append(twin);
    if (node.localName === 'template') { twin.innerHTML = node.innerHTML; continue; }
    if (rows.has(node) && !node.shadowRoot) { twin.append(fetchly.parsed(rows.get(node))); continue; }
    const inside = body ? body.childNodes : (node.shadowRoot ?? node).childNodes;
    for (const child of [...inside].reverse()) stack.push([child, twin]);
  }
  return top.firstChild;
};

fetchly.frame ??= () => new Promise(resolve => {
  // Until a frame was drawn: the page is told of scrolling just before. Where nothing is drawn, nothing is waited for.
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)));
  setTimeout(() => resolve(true), 2000);
});

fetchly.parsed ??= list => {
  // A template's content model allows rows of tables without their table.
  const template = fetchly.inert.createElement('template');
  template.innerHTML = list.join('\n');
  return template.content;
};
