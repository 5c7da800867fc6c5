"use strict";
const number = (text) => Number.parseFloat(text.replace(/−/g, "-").replace(/,/g, "").replace(/^[<>~≥≤$+]+/, ""));
const order = (a, b) => {
  if (a.startsWith("–") || b.startsWith("–")) return a.startsWith("–") - b.startsWith("–");
  const [one, other] = [number(a), number(b)];
  return Number.isNaN(one) || Number.isNaN(other) ? a.localeCompare(b, "en", { numeric: true }) : one - other;
};
const sort = (table, head) => {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const text = (row) => row.cells[head.cellIndex].textContent.trim();
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => (down ? order(text(b), text(a)) : order(text(a), text(b)))));
};
for (const table of document.querySelectorAll("table")) {
  const rows = [...table.tBodies[0].rows];
  const isSortable = rows.length > 1 && rows.every((row) => row.cells[0].textContent.trim() !== "");
  for (const head of isSortable ? table.tHead.rows[0].cells : []) {
    if (!head.textContent) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
