// The window to one of its ends, or by some pixels.
where => {
  const scroller = document.scrollingElement;
  if (!scroller) return true;
  const top = where === 'top' ? 0 : where === 'bottom' ? scroller.scrollHeight : scroller.scrollTop + where;
  scroller.scrollTo({ top, behavior: 'instant' });
  return fetchly.frame(); // then the page has heard of it
}
