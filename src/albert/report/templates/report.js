// Sortable tables. A cell is compared by its number if it has one, else by its text; missing cells come last.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0], originalRows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const read = (cell) => ({
    isMissing: cell.hasAttribute("data-missing"),
    number: cell.dataset.value === undefined ? null : Number(cell.dataset.value),
    text: cell.textContent,
  });
  const compare = (a, b) => a.number !== null && b.number !== null
    ? Math.sign(a.number - b.number)
    : a.text.localeCompare(b.text, "en", { numeric: true });
  heads.forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = next[head.getAttribute("aria-sort") || "none"];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      if (order === "none") return body.append(...originalRows);
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const keyed = originalRows.map((row) => ({ row, key: read(row.cells[index]) }));
      keyed.sort(({ key: a }, { key: b }) =>
        a.isMissing - b.isMissing || (a.isMissing ? 0 : sign * compare(a, b)));
      body.append(...keyed.map((each) => each.row));
    });
  });
});

// Filters of the cards. Without this script all cards are shown and the filters are hidden.
const filters = document.getElementById("filters");
if (filters) {
  const selects = [...filters.querySelectorAll("select")], search = filters.querySelector("input");
  const cards = [...document.querySelectorAll("article")].map((card) => ({
    card, keys: JSON.parse(card.dataset.keys), text: card.textContent.toLowerCase(),
  }));
  const update = () => {
    const words = search.value.toLowerCase();
    let count = 0;
    for (const { card, keys, text } of cards) {
      const isShown = text.includes(words)
        && selects.every((select, index) => !select.value || select.value === keys[index]);
      card.hidden = !isShown;
      count += isShown;
    }
    filters.querySelector("output").textContent = `${count} of ${cards.length} shown`;
  };
  const set = (keys) => {
    selects.forEach((select, index) => { select.value = keys[index] || ""; });
    search.value = "";
    update();
  };
  filters.hidden = false;
  filters.addEventListener("input", update);
  filters.querySelector("button").addEventListener("click", () => set([]));
  document.querySelectorAll("a[data-keys]").forEach((link) =>
    link.addEventListener("click", () => set(JSON.parse(link.dataset.keys))));
  update();
}
