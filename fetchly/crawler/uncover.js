// Takes consent overlays from before the page, so that it can be acted on. Nothing of them is pressed.
() => {
  const overlays = fetchly.overlays();
  const hide = element => element.style.setProperty('display', 'none', 'important');
  for (const overlay of overlays) {
    // A modal dialog makes the rest of the page inert even where it is not shown.
    for (const part of fetchly.all(overlay)) if (part.localName === 'dialog' && part.matches(':modal')) part.close();
    hide(overlay);
    (fetchly.uncovered ??= new Set()).add(overlay);
  }
  if (overlays.length) for (const element of fetchly.all(document.body)) {
    element.removeAttribute('inert');
    const box = element.getBoundingClientRect();
    if (box.width < 0.9 * innerWidth || box.height < 0.9 * innerHeight || getComputedStyle(element).position !== 'fixed') continue;
    // The veil behind it.
    if (!fetchly.textOf(element) && !element.querySelector('img,video,canvas,input,button,a')) hide(element);
  }
  return overlays.length;
}
