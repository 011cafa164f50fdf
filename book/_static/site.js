// What all pages share: parts of the contents that fold, wide figures on phones, anchors of the former
// one-page API reference. Without this script every page still reads.
document.addEventListener("DOMContentLoaded", () => {
  // Each part of the contents folds; that of the present page, and the first, are open.
  document.querySelectorAll(".bd-sidebar-primary nav p.caption").forEach((caption, number) => {
    const list = caption.nextElementSibling;
    if (!list || list.tagName !== "UL") return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "part-toggle";
    button.append(...caption.childNodes);
    caption.append(button);
    const show = (open) => {
      list.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    const current = list.querySelector(".current, .active");
    show(Boolean(current) || (number === 0 && !document.querySelector(".bd-sidebar-primary .current")));
    button.addEventListener("click", () => show(list.hidden));
  });

  // What unfolds the pages below another one has a name for those who do not see its arrow.
  for (const toggle of document.querySelectorAll(".bd-sidebar-primary li > details > summary")) {
    const above = toggle.closest("li").querySelector("a");
    toggle.setAttribute("aria-label", `Pages below ${above.textContent.trim()}`);
  }

  // Figures of several panels keep a legible size on a phone and scroll inside their box:
  // those with panels side by side, and those drawn so large that their text would be below 8 px.
  for (const image of document.querySelectorAll(".bd-article :is(figure, .cell_output) img")) {
    const mark = () => image.classList.toggle(
      "wide", image.naturalWidth > Math.min(900, 1.6 * image.naturalHeight));
    if (image.complete) mark();
    else image.addEventListener("load", mark);
  }

  // A boxed thing that scrolls sideways can be reached by keyboard.
  for (const box of document.querySelectorAll(".bd-article :is(pre, table, .result-table)"))
    if (box.scrollWidth > box.clientWidth + 1 && !box.hasAttribute("tabindex")) box.tabIndex = 0;

  // An anchor of the former one-page API reference leads to the page that has the name now.
  const names = [...document.querySelectorAll(".api-names > li[id]")];
  const place = decodeURIComponent(location.hash.slice(1)).replace(/^module-/, "");
  if (names.length && place) {
    const last = (name) => name.split(".").pop();
    const entry = names.find((each) => each.id === place)
      ?? names.find((each) => place.startsWith(`${each.id}.`))
      ?? names.find((each) => last(each.id) === last(place))
      ?? names.find((each) => each.id.startsWith(`${place}.`));
    if (entry) location.replace(entry.querySelector("a").href);
  }
});
