// Scrolls what can be scrolled, sees which lists grow and which recycle their elements, and keeps the rows of the latter.
what => {
  const MOST_SCROLLERS = 4, MOST_CHANGES = 50000, FEW = 3;

  const isWindow = scroller => scroller === document.scrollingElement;
  const heightOf = scroller => isWindow(scroller) ? innerHeight : scroller.clientHeight;
  const endOf = scroller => Math.max(0, scroller.scrollHeight - heightOf(scroller));
  const isAtEnd = scroller => scroller.scrollTop >= endOf(scroller) - 2;
  const saysSomething = node => /\S/.test(node.textContent) || !!node.querySelector?.('img,a[href]') || !!node.shadowRoot;

  const begin = () => {
    const found = [];
    const roots = [document];
    for (const element of fetchly.all(document.documentElement)) {
      if (element.shadowRoot) roots.push(element.shadowRoot);
      if (element.scrollHeight <= element.clientHeight + 20 || element.clientHeight < 100 || element.clientWidth < 100) continue;
      if (element === document.body || element === document.documentElement || element.localName === 'textarea') continue;
      const style = getComputedStyle(element);
      if (/auto|scroll|overlay/.test(style.overflowY) && element.checkVisibility({ visibilityProperty: true })) found.push(element);
    }
    found.sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight);
    const page = document.scrollingElement;
    const scrollers = found.slice(0, MOST_SCROLLERS);
    const needed = scrollers.length + (page && endOf(page) > 20 ? 1 : 0);
    if (page) scrollers.unshift(page);
    const lists = fetchly.lists = {
      scrollers, changes: new Map(), seen: 0, kept: new Map(), isFresh: false, observers: [], ticks: 0, changed: 0, stepped: 0,
    };
    // The page's own time: where the machine has much else to do, its timers are as late as this one.
    setInterval(() => { lists.ticks++; }, what.tick_ms);
    for (const root of roots) {
      const observer = new MutationObserver(note);
      observer.observe(root, { subtree: true, childList: true, characterData: true, characterDataOldValue: true });
      fetchly.lists.observers.push(observer);
    }
    return { scrollers: needed };
  };

  // What became of the children of an element: which came, which lost what they said.
  const changesOf = element => {
    const { changes } = fetchly.lists;
    if (!changes.has(element)) changes.set(element, { gained: new Set(), lost: new Set() });
    return changes.get(element);
  };
  const lostIn = element => {
    // A row is some child on the way up; which, is seen later: where several rows of one list have changed.
    for (let child = element; ;) {
      const parent = fetchly.parentOf(child);
      if (!parent) return;
      changesOf(parent).lost.add(child);
      child = parent;
    }
  };
  const note = records => {
    if (!records.length) return;
    const lists = fetchly.lists;
    lists.changed = lists.ticks;
    for (const record of records) {
      if (++lists.seen > MOST_CHANGES) return;
      const host = record.target.host ?? record.target; // a shadow root stands for its element
      if (record.type === 'characterData') {
        if (/\S/.test(record.oldValue) && host.parentElement) lostIn(host.parentElement);
        continue;
      }
      let isEmptied = false;
      for (const node of record.removedNodes) {
        if (node.isConnected || !saysSomething(node)) continue;
        if (node.nodeType === Node.ELEMENT_NODE) changesOf(host).lost.add(node);
        isEmptied = true;
      }
      if (isEmptied) lostIn(host);
      for (const node of record.addedNodes) {
        if (node.nodeType === Node.ELEMENT_NODE && node.isConnected && saysSomething(node)) changesOf(host).gained.add(node);
      }
    }
  };

  const scrollerOf = element => {
    for (let node = element; node; node = fetchly.parentOf(node)) if (fetchly.lists.scrollers.includes(node)) return node;
    return document.scrollingElement;
  };
  // The outermost element with several rows, alike, that are no more what they were: the parts of a row change with it.
  // Few of many are no list that recycles: one that grows shows that it loads.
  const kindOf = element => `${element.localName} ${element.classList[0] ?? ''}`;
  const isRecycling = (list, lost) => {
    if (!list.isConnected || lost.size < Math.max(FEW, 0.3 * list.childElementCount)) return false;
    const kinds = new Map();
    for (const row of lost) kinds.set(kindOf(row), (kinds.get(kindOf(row)) ?? 0) + 1);
    return Math.max(...kinds.values()) >= Math.max(FEW, 0.6 * lost.size);
  };
  const recycling = () => {
    const found = new Set([...fetchly.lists.changes].filter(([list, { lost }]) => isRecycling(list, lost)).map(([list]) => list));
    for (const list of fetchly.lists.kept.keys()) if (list.isConnected) found.add(list);
    return [...found].filter(list => {
      for (let node = fetchly.parentOf(list); node; node = fetchly.parentOf(node)) if (found.has(node)) return false;
      return true;
    });
  };

  const step = manner => {
    const lists = fetchly.lists;
    for (const scroller of lists.scrollers) {
      const view = heightOf(scroller), left = endOf(scroller) - scroller.scrollTop;
      // Rows are collected from windows that overlap; else what lies between is only to be noticed by the page.
      const by = manner === 'collect' ? Math.max(1, 0.75 * view) : Math.max(0.9 * view, left / 8);
      const top = lists.isFresh ? 0 : Math.min(endOf(scroller), scroller.scrollTop + by);
      if (top !== scroller.scrollTop) scroller.scrollTo({ top, behavior: 'instant' });
      // A page that is no longer than our window, which is a tall one, hears of scrolling nevertheless.
      else (isWindow(scroller) ? window : scroller).dispatchEvent(new Event('scroll'));
    }
    lists.isFresh = false;
    return fetchly.frame().then(() => { lists.stepped = lists.ticks; return true; });
  };

  const rowsOf = list => {
    const scroller = scrollerOf(list);
    const origin = isWindow(scroller) ? -scroller.scrollTop : scroller.getBoundingClientRect().top - scroller.scrollTop;
    const top = isWindow(scroller) ? 0 : scroller.getBoundingClientRect().top;
    const rows = [];
    for (const child of list.children) {
      if (['script', 'style', 'template'].includes(child.localName) || !saysSomething(child)) continue;
      if (!child.checkVisibility({ visibilityProperty: true }) || /sticky|fixed/.test(getComputedStyle(child).position)) continue;
      let box = child.getBoundingClientRect();
      if (!box.height) { const range = document.createRange(); range.selectNodeContents(child); box = range.getBoundingClientRect(); }
      if (!box.height || box.bottom - origin <= 0) continue; // an unused element, parked outside
      const links = [...child.querySelectorAll('a[href],img[src]')].map(each => each.href ?? each.src).join(' ');
      const says = fetchly.textOf(child);
      rows.push({
        y: box.top - origin, x: box.left, height: box.height, width: box.width, says: `${says} ${links}`, length: says.length,
        isSeen: box.bottom > top && box.top < top + heightOf(scroller), element: child,
      });
    }
    return rows.sort((a, b) => a.y - b.y || a.x - b.x);
  };

  // How far rows have moved in the list since the last look, for what was measured or removed above them.
  const shiftOf = (before, rows) => {
    const once = list => {
      const count = new Map();
      for (const row of list) count.set(row.says, count.has(row.says) ? null : row);
      return count;
    };
    const known = once(before), moved = [];
    for (const [says, row] of once(rows)) if (row && known.get(says)) moved.push(row.y - known.get(says).at);
    moved.sort((a, b) => a - b);
    const median = moved[moved.length >> 1] ?? 0;
    return 2 * moved.filter(each => Math.abs(each - median) < 2).length > moved.length ? median : 0;
  };

  const keep = () => {
    const { kept } = fetchly.lists;
    for (const list of recycling()) {
      if (!kept.has(list)) kept.set(list, { rows: [], last: [], shift: 0, first: null });
      const memory = kept.get(list), rows = rowsOf(list);
      // `at`: where a row was when it was first looked at; `y`: its place in the list as it was at the beginning.
      const moved = shiftOf(memory.last, rows);
      memory.shift += moved;
      for (const row of rows) {
        row.at = row.y;
        row.y -= memory.shift;
        const same = memory.rows.find(each => Math.abs(each.y - row.y) < Math.min(each.height, row.height) / 2
          && Math.abs(each.x - row.x) < Math.max(4, Math.min(each.width, row.width) / 2));
        // What stands outside the view may be an empty form still, or again.
        if (same && !row.isSeen && same.length >= row.length) continue;
        row.html = fetchly.copy(row.element)?.outerHTML ?? '';
        delete row.element;
        if (same) Object.assign(same, row); else memory.rows.push(row);
      }
      memory.last = rows.map(({ says, at }) => ({ says, at }));
      memory.now = rows.length;
    }
  };

  // For the reading: the lists of which more was kept than they show, with their rows in order.
  fetchly.rows = () => {
    const whole = new Map();
    for (const [list, { rows, now }] of fetchly.lists?.kept ?? []) {
      if (!list.isConnected || rows.length <= now) continue;
      const fromRight = getComputedStyle(list).direction === 'rtl' ? -1 : 1;
      const lines = [];
      for (const row of [...rows].sort((a, b) => a.y - b.y)) {
        const line = lines.at(-1);
        if (line && row.y - line[0].y < Math.min(row.height, line[0].height) / 2) line.push(row); else lines.push([row]);
      }
      whole.set(list, lines.flatMap(line => line.sort((a, b) => fromRight * (a.x - b.x))).map(row => row.html));
    }
    return whole;
  };

  // A window of a list in which no row stands yet.
  const isBlank = list => {
    const scroller = scrollerOf(list), box = list.getBoundingClientRect();
    const top = isWindow(scroller) ? 0 : scroller.getBoundingClientRect().top, bottom = top + heightOf(scroller);
    const share = (Math.min(bottom, box.bottom) - Math.max(top, box.top)) / heightOf(scroller);
    return share > 0.5 && !rowsOf(list).some(row => row.isSeen);
  };

  const look = () => {
    const { scrollers, changes, kept, changed, stepped, ticks } = fetchly.lists;
    const rows = [...kept.values()].map(each => each.rows.length);
    const grown = [...changes].filter(([list, { gained }]) => list.isConnected && gained.size >= FEW).map(([list]) => list.childElementCount);
    return {
      at_end: scrollers.every(isAtEnd),
      waited: ticks - stepped,
      quiet: ticks - Math.max(changed, stepped),
      items: Math.max(0, ...(rows.length ? rows : grown)),
      blank: [...kept.keys()].some(list => list.isConnected && isBlank(list)),
      recycles: recycling().length > 0,
      size: scrollers.reduce((sum, each) => sum + each.scrollHeight, 0) + Math.max(0, ...grown),
    };
  };

  if (what.do === 'begin') return begin();
  if (!fetchly.lists) return null; // another document
  for (const observer of fetchly.lists.observers) note(observer.takeRecords());
  if (what.do === 'step') return step(what.manner);
  if (what.do === 'keep') keep();
  if (what.do === 'collect') return fetchly.lists.isFresh = true;
  return look();
}
