// The page's document as HTML, with what stands in open shadow roots and in visible frames of the same origin put in the
// place where a reader sees it. Runs in a world of its own, where the page's scripts have changed nothing.
(() => {
  const inert = document.implementation.createHTMLDocument(''); // no loads, no custom elements, no scripts
  const heading = document.doctype ? '<!DOCTYPE html>\n' : '';
  const framed = element => {
    if (element.localName !== 'iframe' && element.localName !== 'frame') return null;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return null;
    try { return element.contentDocument?.body ?? null; } catch { return null; }
  };
  const plain = root => !root.querySelector('*') || [...root.querySelectorAll('*')].every(e => !e.shadowRoot && !framed(e));
  const whole = document.documentElement;
  if (!whole) return '';
  const copy = root => {
    // Pairs still to be copied: a node of the page, and the parent that its copy gets. A stack: pages nest deeply.
    const top = inert.createDocumentFragment();
    const stack = [[root, top]];
    while (stack.length) {
      const [node, parent] = stack.pop();
      if (node.nodeType !== Node.ELEMENT_NODE) { parent.append(inert.importNode(node, true)); continue; }
      if (node.localName === 'slot' && node.getRootNode().host) {
        const assigned = node.assignedNodes();
        for (const child of [...(assigned.length ? assigned : node.childNodes)].reverse()) stack.push([child, parent]);
        continue;
      }
      const body = framed(node);
      const twin = body ? inert.createElement('div') : inert.importNode(node, false);
      // A frame has a base address of its own: its links are written out.
      if (node.ownerDocument !== document) for (const name of ['href', 'src']) {
        if (node.hasAttribute?.(name) && typeof node[name] === 'string') twin.setAttribute(name, node[name]);
      }
      parent.append(twin);
      if (node.localName === 'template') { twin.innerHTML = node.innerHTML; continue; }
      const inside = body ? body.childNodes : (node.shadowRoot ?? node).childNodes;
      for (const child of [...inside].reverse()) stack.push([child, twin]);
    }
    return top.firstChild;
  };
  let html;
  try { html = plain(document) ? whole.outerHTML : copy(whole).outerHTML; } catch { html = whole.outerHTML; }
  return (heading + html).toWellFormed();
})()
