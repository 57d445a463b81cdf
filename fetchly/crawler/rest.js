// How long nothing has changed in the page: milliseconds, whether it has loaded, whether it can change, and shows any text.
() => {
  if (!fetchly.watch) {
    fetchly.watch = { last: performance.now() };
    // Attributes do not count: a carousel moves for ever.
    new MutationObserver(() => { fetchly.watch.last = performance.now(); })
      .observe(document, { subtree: true, childList: true, characterData: true });
  }
  const quiet = performance.now() - fetchly.watch.last;
  const loaded = document.readyState === 'complete';
  // Nothing that could change it, or load anything: no need to wait.
  const still = loaded && !document.querySelector('script,iframe,frame,object,embed,[onload],[onerror],[http-equiv]');
  return { quiet, loaded, still, text: !loaded || quiet < 400 || !!document.body?.innerText?.trim() };
}
