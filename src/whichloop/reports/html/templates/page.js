"use strict";
const known = (text) => text !== "" && !text.startsWith("–");
const number = (text) => Number.parseFloat(text.replace(/−/g, "-").replace(/,/g, "").replace(/^[<>~≥≤$+]+/, ""));
const order = (numeric) => (a, b) => {
  if (!known(a) || !known(b)) return known(b) - known(a);
  return numeric ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true });
};
const sort = (table, head) => {
  const turned = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", turned ? "descending" : "ascending");
  const compare = order(head.classList.contains("num"));
  const text = (row) => row.cells[head.cellIndex].textContent.trim();
  const sign = (a, b) => (turned && known(a) && known(b) ? -1 : 1);
  const rows = [...table.tBodies[0].rows].sort((a, b) => sign(text(a), text(b)) * compare(text(a), text(b)));
  table.tBodies[0].append(...rows);
};
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}
const hidden = (box) => [box.scrollWidth - box.clientWidth - box.scrollLeft > 1, box.scrollHeight - box.clientHeight - box.scrollTop > 1];
for (const box of document.querySelectorAll(".scroll")) {
  const hint = document.createElement("p");
  hint.className = "more";
  hint.hidden = true;
  box.after(hint);
  const look = () => {
    const [right, below] = hidden(box);
    box.classList.toggle("right", right);
    box.classList.toggle("below", below);
    const sides = [box.scrollWidth - box.clientWidth > 1 && "sideways", box.scrollHeight - box.clientHeight > 1 && "down"].filter(Boolean);
    hint.hidden = sides.length === 0;
    hint.textContent = `This table is larger than its place: scroll ${sides.join(" and ")} to see all of it.`;
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
}
const open = (target) => {
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
};
const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  open(target);
  if (target) target.scrollIntoView();
};
addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) open(document.getElementById(link.hash.slice(1)));
});
addEventListener("hashchange", unfold);
unfold();
