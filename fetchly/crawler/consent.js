// Which elements are consent overlays, by their generic shape: what stands before the page (fixed, sticky, a dialog, on
// top of others) or bears the name of a consent tool, speaks of cookies or tracking, and has something to press that
// takes or refuses. Never the page itself: a wall before nothing, a form to log in, an age gate, an article on cookies.
fetchly.overlays ??= () => {
  const NAMES = /cookie|consent|gdpr|dsgvo|\bcmp|cmp(box|wrapper|-)|onetrust|optanon|didomi|usercentrics|cybot|sp_message|truste|privacy-?(manager|bar|banner|notice)|eu-?law|cc-(window|banner)/i;
  const COOKIES = /cookie|kaka|kakor|evästei|küpsis|sīkdat|slapuk|çerez|süti|kolačić|piškot|クッキー|쿠키|куки|файлы cookie|кукі|隐私|كوكي|ملفات تعريف|עוגיות|คุกกี้|गोपनीयता|ثبت رضایت/i;
  const TRACKING = /privacy|gdpr|tracking|consent|datenschutz|privatsphäre|einwilligung|données personnelles|vie privée|confidentialité|privacidad|privacidade|dati personali|riservatezza|prywatnoś|integritet|personvern|soukromí|конфиденциальност|персональн|個人情報|개인정보|partners?\b.{0,80}\b(store|data|personal)/i;
  const TAKES = /accept|agree|consent|allow|akzept|zustimm|einverstanden|erlaub|accepter|j'accepte|d'accord|autoriser|acept|permitir|de acuerdo|accett|consenti|aceit|concordo|akkoord|toestaan|zgadzam|zgod|akcept|souhlas|přij|godkän|tillåt|godta|tillad|hyväksy|elfogad|sutinku|piekr|nõust|kabul|onayl|принять|принима|соглас|прийня|同意|受け入れ|許可|接受|동의|허용|موافق|أوافق|قبول|אישור|מסכים|ยอมรับ|स्वीकार/i;
  const CLOSES = /got it|understand|verstanden|entendido|ho capito|compris|begrepen|forstått|jag förstår|rozumiem|хорошо|понятно|^(ok|okay|oké|x|×|✕|✖|close|dismiss|schlie(ß|ss)en|fermer|cerrar|chiudi|fechar|sluiten|stäng|lukk?|zamknij|закрыть|閉じる|关闭|닫기)\W*$/i;
  const USES = /\b(uses?|using|we and our|verwende|nutz|setzen|utilis|usamos|utiliza|uso|usiamo|utilizz|gebruik|använd|bruger|bruker|käyttä|używ|wykorzyst|použív|használ|kullan)|использу|使用|利用|사용/i;
  const REFUSES = /reject|refuse|decline|deny|necessary|essential|manage|settings|preferences|options|customi[sz]e|ablehn|einstellung|verwalten|notwendig|refuser|paramétr|personnalis|continuer sans|rechaz|configur|gestion|rifiut|personalizza|rejeitar|gerir|weiger|instellingen|odrzu|ustawieni|odmít|nastavení|avvisa|neka|inställning|avvis|innstill|afvis|hylkää|asetuks|elutas|beállít|atmesti|noraid|keeldu|reddet|ayarlar|отклон|настро|відхил|拒否|拒绝|設定|设置|거부|설정|رفض|דחה|ปฏิเสธ/i;
  const GATES = /\b(18|21)\s*(\+|years|jahre|ans|años|anni|anos|jaar|lat|år)|\b(over|under|über|unter)\s+(18|21)\b|age verification|altersprüfung|\b(your|dein|ihr|votre|tu|su) (age|alter|âge|edad)\b/i;
  const MOST_CHARACTERS = 8000, MOST_IN_FLOW = 2500, MOST_OF_A_NOTICE = 600, LEAST_REST = 60;
  const TYPED = /^(text|email|password|tel|number|search|date|url)$/;

  const body = document.body;
  if (!body) return [];
  const whole = fetchly.textOf(body).length;

  const namesOf = element => `${element.id} ${element.getAttribute('class') ?? ''} ${element.getAttribute('aria-label') ?? ''} ${element.localName}`;
  const isDialog = element => /^(alert)?dialog$/i.test(element.getAttribute('role') ?? '') || element.hasAttribute('aria-modal')
    || (element.localName === 'dialog' && element.open) || element.matches(':popover-open');
  const isInFront = (element, inContent) => {
    const style = getComputedStyle(element);
    if (style.position === 'fixed' || (style.position === 'sticky' && !inContent)) return true;
    return style.position === 'absolute' && Number(style.zIndex) >= 100;
  };
  const isControl = part => /^(button|a|summary)$/.test(part.localName) || part.getAttribute('role') === 'button' || part.hasAttribute('onclick')
    || (part.localName === 'input' && /^(button|submit|image)$/.test(part.type)) || /(^|[\s_-])(btn|button|accept|close)/i.test(part.getAttribute('class') ?? '');
  const asks = (element, most) => {
    const said = fetchly.textOf(element);
    if (!said || said.length > most || whole - said.length < LEAST_REST || GATES.test(said)) return false;
    const onCookies = COOKIES.test(said);
    if (!onCookies && !TRACKING.test(said)) return false;
    let takes = false, refuses = false, closes = false;
    for (const part of fetchly.all(element)) {
      if (/^(main|article|textarea)$/.test(part.localName) || part.getAttribute('role') === 'main') return false;
      if (part.localName === 'input' && TYPED.test(part.type)) return false;
      if (part === element || !isControl(part)) continue;
      const labels = [fetchly.textOf(part) || part.value || '', part.getAttribute('aria-label') ?? part.title ?? ''].map(label => String(label).slice(0, 80).trim());
      const isOneOf = words => labels.some(label => words.test(label));
      takes ||= isOneOf(TAKES);
      refuses ||= isOneOf(REFUSES);
      closes ||= isOneOf(CLOSES);
    }
    if (!onCookies) return takes && refuses;
    if (takes || (refuses && TRACKING.test(said))) return true;
    return closes && USES.test(said) && said.length <= MOST_OF_A_NOTICE;
  };
  // The whole of what was put before the page: also a wrapper that says nothing else.
  const wrapperOf = element => {
    const length = fetchly.textOf(element).length;
    for (let outer = element; ;) {
      const parent = outer.parentElement ?? outer.getRootNode().host;
      if (!parent || /^(body|html|main|article|form)$/.test(parent.localName) || fetchly.textOf(parent).length > length + 20) return outer;
      outer = parent;
    }
  };

  const found = [...fetchly.uncovered ?? []].filter(element => element.isConnected);
  for (const element of fetchly.all(body)) {
    if (!element.checkVisibility?.() || /^(script|style|svg|path|br|img|li|option)$/.test(element.localName)) continue;
    if (found.some(each => each === element || each.contains(element) || each.shadowRoot?.contains(element))) continue;
    const inContent = element.closest('main,article') !== null;
    const isNamed = NAMES.test(namesOf(element));
    const inFront = isDialog(element) || isInFront(element, inContent);
    if (!inFront && (!isNamed || inContent)) continue;
    if (asks(element, !inFront ? MOST_IN_FLOW : isNamed ? Infinity : MOST_CHARACTERS)) found.push(wrapperOf(element));
  }
  return found;
};
