// How long nothing has changed in the page: milliseconds, whether it has loaded, whether it can change, and shows any text.
(() => {
  let watch = globalThis.__fetchly;
  if (!watch) {
    watch = globalThis.__fetchly = { last: performance.now() };
    // Attributes do not count: a carousel moves for ever.
    new MutationObserver(() => { watch.last = performance.now(); })
      .observe(document, { subtree: true, childList: true, characterData: true });
  }
  const quiet = performance.now() - watch.last;
  const loaded = document.readyState === 'complete';
  // Nothing that could change it, or load anything: no need to wait.
  const still = loaded && !document.querySelector('script,iframe,frame,object,embed,[onload],[onerror],[http-equiv]');
  return { quiet, loaded, still, text: !loaded || quiet < 400 || !!document.body?.innerText?.trim() };
})()
