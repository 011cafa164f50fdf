// Slides: keys, touch, overview, notes; text is fitted to its slide, formulas to their line.
'use strict';
const WIDTH = 1280, HEIGHT = 720, SMALLEST = 0.7, LARGEST = 1.24, SMALLEST_FORMULA = 0.5;
const KEYS = [
  ['→ ↓ space, ← ↑', 'next, previous'], ['Home, End', 'first, last'], ['o', 'overview'], ['n', 'notes'],
  ['w', 'notes in a window of their own'], ['d', 'dark or light'], ['f', 'full screen'], ['?', 'these keys'],
];
const root = document.documentElement, frames = [...document.querySelectorAll('.frame')];
const narrow = matchMedia('(max-width: 719px)'), paper = matchMedia('print');
const onlyNotes = location.search === '?notes';
let now = 0, other = onlyNotes ? window.opener : null;

const deck = () => root.classList.contains('deck');
const overview = () => root.classList.contains('overview');

function show(wanted, tell = true) {
  const before = now;
  now = Math.max(0, Math.min(frames.length - 1, wanted));
  frames.forEach((frame, i) => frame.classList.toggle('now', i === now));
  if (location.hash !== `#${now + 1}`) history.replaceState(null, '', `${location.search}#${now + 1}`);
  document.getElementById('where').textContent = `${now + 1} / ${frames.length}`;
  if (!deck() || overview()) frames[now].scrollIntoView({block: overview() ? 'nearest' : 'start'});
  if (tell && before !== now && other && !other.closed) {
    const page = location.href.split(/[?#]/)[0];
    other.location.replace(`${page}${onlyNotes ? '' : '?notes'}#${now + 1}`);
  }
}

function fitFormulas() {
  for (const box of document.querySelectorAll('.equation .math')) {
    box.style.fontSize = '';
    const formula = box.querySelector('mjx-math');
    if (!formula || !box.clientWidth) continue;
    const share = box.clientWidth / (formula.getBoundingClientRect().width / scaleOf(box));
    if (share < 1) box.style.fontSize = `${Math.max(SMALLEST_FORMULA, share * 0.99) * 100}%`;
    box.tabIndex = share < SMALLEST_FORMULA ? 0 : -1;
  }
  for (const formula of document.querySelectorAll('.slide span.math')) {  // in a line: on a phone it may be wider than the page
    formula.style.fontSize = '';
    const room = formula.closest('p, li, td, th, figcaption, h1, h2, footer, div').clientWidth;
    const share = room / (formula.getBoundingClientRect().width / scaleOf(formula.closest('.slide')));
    if (share < 1) formula.style.fontSize = `${share * 98}%`;
  }
}

function fitListings() {
  for (const listing of document.querySelectorAll('.slide pre')) {
    listing.style.fontSize = '';
    if (listing.scrollWidth <= listing.clientWidth) continue;
    const size = parseFloat(getComputedStyle(listing).fontSize), share = listing.clientWidth / listing.scrollWidth;
    listing.style.fontSize = `${size * Math.max(SMALLEST_FORMULA, share * 0.98)}px`;
    listing.tabIndex = 0;
  }
}
const scaleOf = element => element.offsetWidth ? element.getBoundingClientRect().width / element.offsetWidth : 1;

const tooLarge = slide => [slide, ...slide.querySelectorAll('.content, .columns, .columns > div, .content figure, pre')].some(
  part => part.scrollHeight > part.clientHeight + 1 || part.scrollWidth > part.clientWidth + 1);

function arrange() {
  if (paper.matches) return;
  const small = narrow.matches;
  root.classList.toggle('deck', !small);
  if (small) root.classList.remove('overview');
  root.style.setProperty('--scale', Math.min(innerWidth / WIDTH, innerHeight / HEIGHT));
  for (const frame of frames) {
    const slide = frame.querySelector('.slide');
    slide.style.setProperty('--fit', 1);
  }
  document.querySelectorAll('.slide pre').forEach(listing => { listing.style.fontSize = ''; });
  fitFormulas();
  if (small) return fitListings();
  for (const frame of frames) {
    const slide = frame.querySelector('.slide');
    let fit = slide.querySelector('figure') ? 1 : LARGEST;  // a figure takes what room there is; words alone may grow
    const size = () => slide.style.setProperty('--fit', fit.toFixed(2));
    for (size(); tooLarge(slide) && fit > SMALLEST; size()) fit -= 0.04;
  }
  fitFormulas();
}

const actions = {
  next: () => show(now + 1),
  previous: () => show(now - 1),
  overview: () => { if (deck()) { root.classList.toggle('overview'); show(now); } },
  notes: () => root.classList.toggle('with-notes'),
  window: () => { other = window.open(`${location.href.split(/[?#]/)[0]}?notes#${now + 1}`, 'notes', 'width=900,height=600'); },
  theme: () => { root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark'; },
  full: () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
  keys: () => { const list = document.querySelector('.keys'); list.hidden = !list.hidden; },
};
const BUTTONS = [['previous', '‹', 'previous slide', 'wide'], ['next', '›', 'next slide', 'wide'], ['overview', '▦', 'overview', 'wide'],
  ['notes', '✎', 'notes', ''], ['theme', '◐', 'dark or light', ''], ['keys', '?', 'keys', 'wide']];

function controls() {
  const bar = document.createElement('nav');
  bar.className = 'bar';
  bar.setAttribute('aria-label', 'slides');
  for (const [name, sign, label, kind] of BUTTONS) {
    const button = document.createElement('button');
    Object.assign(button, {type: 'button', textContent: sign, title: label, className: kind});
    button.setAttribute('aria-label', label);
    button.addEventListener('click', event => { event.stopPropagation(); actions[name](); });
    bar.append(button);
  }
  const where = document.createElement('output');
  Object.assign(where, {id: 'where', className: 'wide'});
  where.setAttribute('aria-live', 'polite');
  bar.append(where);
  const list = document.createElement('div');
  Object.assign(list, {className: 'keys', hidden: true});
  for (const [key, meaning] of KEYS) {
    const line = document.createElement('div');
    line.append(Object.assign(document.createElement('b'), {textContent: key}), `: ${meaning}`);
    list.append(line);
  }
  document.body.append(bar, list);
}

const BY_KEY = {
  ArrowRight: 'next', ArrowDown: 'next', PageDown: 'next', ' ': 'next', ArrowLeft: 'previous', ArrowUp: 'previous',
  PageUp: 'previous', Backspace: 'previous', o: 'overview', n: 'notes', w: 'window', d: 'theme', f: 'full', '?': 'keys',
};
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const pressed = event.target.closest?.('button') && [' ', 'Enter'].includes(event.key);
  if (pressed) return;
  if (!deck() && !['n', 'd'].includes(event.key)) return;  // a page that scrolls keeps its keys
  const action = BY_KEY[event.key];
  if (event.key === 'Home' || event.key === 'End') show(event.key === 'Home' ? 0 : frames.length - 1);
  else if (event.key === 'Escape' || event.key === 'Enter') { if (overview()) actions.overview(); }
  else if (action) actions[action]();
  else return;
  event.preventDefault();
});

let touch = null;
addEventListener('touchstart', event => { touch = event.touches.length === 1 ? event.touches[0] : null; }, {passive: true});
addEventListener('touchend', event => {
  if (!touch || !deck() || overview()) return;
  const dx = event.changedTouches[0].clientX - touch.clientX, dy = event.changedTouches[0].clientY - touch.clientY;
  if (Math.abs(dx) > 50 && Math.abs(dx) > 1.5 * Math.abs(dy)) show(now + (dx < 0 ? 1 : -1));
});
frames.forEach((frame, i) => frame.addEventListener('click', () => { if (overview()) { now = i; actions.overview(); } }));
addEventListener('hashchange', () => show(Number(location.hash.slice(1)) - 1 || 0, false));
let pending;
addEventListener('resize', () => { clearTimeout(pending); pending = setTimeout(() => { arrange(); show(now, false); settled(); }, 60); });
const settled = () => { root.dataset.ready = `${innerWidth}x${innerHeight}`; };

root.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
if (onlyNotes) root.classList.add('only-notes', 'with-notes');
controls();
arrange();
if (location.hash || deck()) show(Number(location.hash.slice(1)) - 1 || 0, false);
const pictures = [...document.images].map(image => image.decode().catch(() => {}));
Promise.all([window.MathJax?.startup?.promise, document.fonts.ready, ...pictures]).then(() => { arrange(); settled(); });
