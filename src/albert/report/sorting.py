"""The tables of a page come in; their heads become buttons that put the rows in order."""

# Without it the rows stand in the order in which they were written, and the heads are plain words.
# A cell is compared by its number where it has one, else by its text; what is missing stays below.
SCRIPT = """
(() => {
  const read = (cell) => ({
    isMissing: cell.hasAttribute("data-missing"),
    number: cell.dataset.value === undefined ? null : Number(cell.dataset.value),
    text: cell.textContent,
  });
  const compare = (a, b) => {
    if (a.number !== null && b.number !== null) return a.number < b.number ? -1 : a.number > b.number ? 1 : 0;
    if (a.number !== null || b.number !== null) return a.number !== null ? -1 : 1;
    return a.text.localeCompare(b.text, "en", { numeric: true });
  };
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  document.querySelectorAll("table.sortable").forEach((table) => {
    const body = table.tBodies[0], written = [...body.rows], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const order = next[head.getAttribute("aria-sort") || "none"];
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        if (order === "none") return body.append(...written);
        head.setAttribute("aria-sort", order);
        const way = order === "ascending" ? 1 : -1;
        const keyed = written.map((row) => ({ row, key: read(row.cells[place]) }));
        keyed.sort((a, b) => a.key.isMissing - b.key.isMissing
          || (a.key.isMissing ? 0 : way * compare(a.key, b.key)));
        body.append(...keyed.map((each) => each.row));
      });
    });
  });
})();
"""
