// Terms of the glossary: a preview of the definition on hover or focus, gone with Escape. The link works without it.
document.addEventListener("DOMContentLoaded", () => {
  let box = null;
  let owner = null;
  let leaving = 0;
  const hide = () => {
    box?.remove();
    owner?.removeAttribute("aria-describedby");
    box = owner = null;
  };
  const later = () => { leaving = setTimeout(hide, 200); };
  const show = (link) => {
    clearTimeout(leaving);
    if (owner === link) return;
    hide();
    owner = link;
    box = document.createElement("div");
    box.className = "term-preview";
    box.id = "term-preview";
    box.setAttribute("role", "tooltip");
    box.textContent = link.dataset.definition;
    document.body.append(box);
    link.setAttribute("aria-describedby", box.id);
    const place = link.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.offsetWidth - 16;
    box.style.left = `${Math.max(16, Math.min(place.left, room))}px`;
    box.style.top = `${place.bottom + scrollY + 6}px`;
    box.addEventListener("mouseenter", () => clearTimeout(leaving));
    box.addEventListener("mouseleave", later);
    if (box.textContent.includes("\\(")) window.MathJax?.typesetPromise?.([box]);
  };
  for (const link of document.querySelectorAll("a.term[data-definition]")) {
    link.addEventListener("mouseenter", () => show(link));
    link.addEventListener("focus", () => show(link));
    link.addEventListener("mouseleave", later);
    link.addEventListener("blur", later);
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
});
