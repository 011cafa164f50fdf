// In search results a function or class stands before the methods of the same name, and both before chapters
// that only mention it.
var Scorer = {
  score: ([, title, anchor, descr, score]) => {
    if (!descr || !anchor) return score;
    if (/^Python (function|class)/.test(descr)) return score + 20;
    return /^Python (method|property|attribute|module)/.test(descr) ? score - 5 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
