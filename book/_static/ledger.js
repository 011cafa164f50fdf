// The claims ledger: filters, a search and links that unfold their claim. Without this script every entry still unfolds.
document.addEventListener("DOMContentLoaded", () => {
  const entries = [...document.querySelectorAll("details.ledger-entry")];
  if (!entries.length) return;
  const texts = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase()]));
  const values = (name) => [...new Set(entries.flatMap((entry) =>
    (name === "chapters" ? entry.dataset.chapters.split(" ") : [entry.dataset[name]]).filter(Boolean)))];

  const bar = document.createElement("form");
  bar.className = "ledger-filter";
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", "Filter the claims");
  const field = (title, control) => {
    const label = document.createElement("label");
    label.append(title + " ", control);
    bar.append(label);
    return control;
  };
  const choice = (title, name) => {
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...values(name).sort().map((value) =>
      new Option(value.replaceAll("_", " "), value)));
    return field(title, select);
  };
  const verdict = choice("Verdict", "verdict");
  const kind = choice("Kind", "kind");
  const chapter = choice("Chapter", "chapters");
  const words = field("Search", Object.assign(document.createElement("input"), { type: "search" }));
  const fold = Object.assign(document.createElement("button"), { type: "button", textContent: "Unfold all" });
  const clear = Object.assign(document.createElement("button"), { type: "reset", textContent: "Clear" });
  const says = document.createElement("output");
  bar.append(fold, clear, says);

  const filter = () => {
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const entry of entries) {
      const fits = (!verdict.value || entry.dataset.verdict === verdict.value)
        && (!kind.value || entry.dataset.kind === kind.value)
        && (!chapter.value || entry.dataset.chapters.split(" ").includes(chapter.value))
        && sought.every((word) => texts.get(entry).includes(word));
      entry.hidden = !fits;
      shown += fits;
    }
    says.textContent = `${shown} of ${entries.length} claims`;
    for (const section of document.querySelectorAll("section")) {
      const own = [...section.querySelectorAll("details.ledger-entry")];
      if (own.length && !section.contains(bar)) section.hidden = own.every((entry) => entry.hidden);
    }
  };
  const unfold = () => {
    const entry = location.hash.startsWith("#ledger-") && document.getElementById(location.hash.slice(1));
    if (!entry) return;
    if (entry.hidden) { bar.reset(); filter(); }
    entry.open = true;
    entry.scrollIntoView();
  };
  bar.addEventListener("input", filter);
  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.addEventListener("reset", () => setTimeout(filter));
  fold.addEventListener("click", () => {
    const open = fold.textContent === "Unfold all";
    for (const entry of entries) entry.open = open && !entry.hidden;
    fold.textContent = open ? "Fold all" : "Unfold all";
  });
  addEventListener("hashchange", unfold);
  const heading = document.getElementById("the-ledger");
  const place = heading?.querySelector("section") ?? entries[0];
  place.before(bar);
  filter();
  unfold();
});
